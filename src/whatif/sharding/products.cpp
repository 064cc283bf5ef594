#include "whatif/sharding/products.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/saturate.hpp"

namespace foretrace::whatif {

namespace {

using work::OpView;
using work::Shape;

// Shapes of parameters with three dimensions, as their gradients show them.
std::set<Shape> stacked_parameters(const trace::Trace& trace) {
  std::set<Shape> out;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (trace.name(e) != "torch::autograd::AccumulateGrad") continue;
    const OpView op(trace, trace.events.args[e]);
    if (op.size() > 0 && op.tensor(0, 3) && op[0].shape().size() == 3) out.insert(op[0].shape());
  }
  return out;
}

// linear(x, weight[out, in]), addmm(bias, x, weight[in, out]), matmul and bmm by a tensor that is there before the step,
// _grouped_mm(x, weights[experts, in, out], ends of groups).
Product product_of(const Model& m, const Dataflow& flow, const Unit& u, const std::set<Shape>& stacked) {
  const bool linear = u.name == "aten::linear";
  const bool addmm = u.name == "aten::addmm";
  const bool grouped = u.name == "aten::_grouped_mm";
  const bool plain = u.name == "aten::mm" || u.name == "aten::matmul" || u.name == "aten::bmm" || grouped;
  if (!linear && !addmm && !plain) return {};
  const std::size_t at = addmm ? 1 : 0;
  const OpView op(*m.trace, m.trace->events.args[u.event]);
  if (!op.tensor(at, 2) || !op.tensor(at + 1, 2)) return {};
  const Shape& x = op[at].shape();
  const Shape& w = op[at + 1].shape();
  if (w.size() > 3 || (grouped ? w.size() != 3 : w.size() == 3 && (x.size() != 3 || x[0] != w[0]))) return {};
  Product p;
  for (const Input& in : u.inputs) {
    if (in.argument == at) p.input = in.value;
    const bool weight = in.argument == at + 1;
    // Where tokens happen to be as many as features, another tensor has a weight's shape.
    if (plain && weight && !stacked.contains(w) && flow.values[flow.content(in.value)].producer != kNone)
      return {};  // no parameter
  }
  p.experts = w.size() == 3 ? w[0] : 1;
  p.in = linear ? w[1] : w[w.size() - 2];
  p.out = linear ? w[0] : w.back();
  if (p.in <= 0 || p.out <= 0 || p.experts <= 0 || x.back() != p.in) return {};
  p.rows = op[at].elements() / p.in / p.experts;
  p.input_bytes = work::element_bytes(op[at].type);
  return p;
}

class ProductDivider {
 public:
  ProductDivider(const Model& m, const Dataflow& flow) : m_(m), flow_(flow) {
    out_.roles.assign(flow.units.size(), Role::kWhole);
  }

  Result<DividedProducts> run() {
    out_.products = weight_products(m_, flow_);
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
      if (out_.products[u].known()) pair(u);
    }
    find_lost_columns();
    read_heads();
    if (out_.rows.empty() || out_.heads == 0) {
      return fail(ErrorCode::kDeclined,
                  "no attention is found whose projections can be divided: tensor parallelism divides heads");
    }
    find_head();
    find_table();
    mark_key_values();
    group_columns();
    return std::move(out_);
  }

 private:
  [[nodiscard]] OpView view(std::uint32_t unit) const {
    return OpView(*m_.trace, m_.trace->events.args[flow_.units[unit].event]);
  }

  // Norms over the width of the model need whole rows; those of single heads do not.
  [[nodiscard]] bool needs_whole_rows(std::uint32_t unit) const {
    const std::string_view name = flow_.units[unit].name;
    const bool norm = name.find("norm") != std::string_view::npos;
    if (norm || name == "aten::rsqrt") {
      const OpView op = view(unit);
      return op.size() == 0 || !op.tensor(0, 1) || op[0].shape().size() < 4;
    }
    // A choice among experts compares all of a router's scores.
    return name == "aten::topk" || name.find("embedding") != std::string_view::npos ||
           name.find("loss") != std::string_view::npos;
  }

  // Products that feed a unit, with what stands in between; false where something needs whole rows.
  bool walk_back(std::uint32_t value, std::set<std::uint32_t>& products, std::set<std::uint32_t>& between) const {
    std::vector<std::uint32_t> open{value};
    while (!open.empty()) {
      const std::uint32_t u = flow_.values[open.back()].producer;
      open.pop_back();
      if (u == kNone) continue;
      if (out_.products[u].known()) {
        products.insert(u);
        continue;
      }
      if (needs_whole_rows(u)) return false;
      if (!between.insert(u).second) continue;
      for (const Input& in : flow_.units[u].inputs) open.push_back(in.value);
    }
    return !products.empty();
  }

  void pair(std::uint32_t unit) {
    std::set<std::uint32_t> fed_by;
    std::set<std::uint32_t> between;
    if (out_.products[unit].input == kNone) return;
    if (!walk_back(out_.products[unit].input, fed_by, between)) return;
    const bool free = std::all_of(fed_by.begin(), fed_by.end(), [&](std::uint32_t u) {
      return out_.roles[u] == Role::kWhole || out_.roles[u] == Role::kColumn;
    });
    if (!free) return;
    for (const std::uint32_t u : fed_by) out_.roles[u] = Role::kColumn;
    for (const std::uint32_t u : between) out_.roles[u] = Role::kInside;
    out_.roles[unit] = Role::kRow;
    out_.rows.push_back(unit);
  }

  // Whether nothing computes with what a unit gives, or with a view of it.
  [[nodiscard]] bool lost(std::uint32_t unit) const {
    return std::ranges::all_of(flow_.units[unit].outputs, [&](std::uint32_t v) {
      return std::ranges::all_of(flow_.values[v].consumers, [&](std::uint32_t u) {
        return !flow_.units[u].computes && !out_.products[u].known() && lost(u);
      });
    });
  }

  // Of several tensors of one shape the flow may lose one (queries and keys that are turned one after the other): a product whose result
  // nothing reads, and whose input feeds products divided by columns, is one of these.
  void find_lost_columns() {
    std::set<std::uint32_t> inputs;
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
      if (out_.roles[u] == Role::kColumn && out_.products[u].input != kNone)
        inputs.insert(flow_.content(out_.products[u].input));
    }
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
      const Product& p = out_.products[u];
      if (!p.known() || out_.roles[u] != Role::kWhole || p.input == kNone || !inputs.contains(flow_.content(p.input)))
        continue;
      if (lost(u)) out_.roles[u] = Role::kColumn;
    }
  }

  // Samples, heads, queries, keys of scores, or samples, heads, positions, head size of what fused attention is given.
  void read_heads() {
    for (std::uint32_t u = 0; u < flow_.units.size() && out_.heads == 0; ++u) {
      const std::string_view name = flow_.units[u].name;
      const bool scores = name.find("softmax") != std::string_view::npos;
      if (out_.roles[u] != Role::kInside || (!scores && name.find("attention") == std::string_view::npos)) continue;
      const OpView op = view(u);
      if (op.size() == 0 || !op.tensor(0, 4)) continue;
      out_.heads = out_.key_heads = op[0].shape()[1];
      if (!scores && op.tensor(1, 4)) out_.key_heads = std::max<std::int64_t>(1, op[1].shape()[1]);
    }
    // Where a change fused them, no operation shows scores: the projections' results are cut into heads in front of it.
    const bool fused = std::any_of(m_.works.rows.begin(), m_.works.rows.end(),
                                   [](const work::Work& w) { return std::holds_alternative<work::Attention>(w.kind); });
    for (const std::uint32_t row : out_.rows) {
      if (fused && out_.heads == 0) out_.heads = out_.key_heads = heads_in_front_of(row);
    }
    for (const work::Work& w : m_.works.rows) {
      const auto* a = std::get_if<work::Attention>(&w.kind);
      const std::uint32_t unit = a == nullptr || w.op_event == kNone ? kNone : flow_.unit_of(w.op_event);
      if (out_.heads > 0 || unit == kNone || a->heads <= 1 || out_.roles[unit] != Role::kInside) continue;
      out_.heads = a->heads;
      out_.key_heads = std::max<std::int64_t>(1, a->heads / std::max<std::int64_t>(1, a->shared));
    }
  }

  // samples x heads x positions x head size, or with positions in front of heads: together as wide as the output
  // projection's input.
  [[nodiscard]] std::int64_t heads_in_front_of(std::uint32_t row) const {
    const Product& p = out_.products[row];
    std::set<std::uint32_t> fed_by;
    std::set<std::uint32_t> between;
    walk_back(p.input, fed_by, between);
    for (const std::uint32_t u : between) {
      for (const std::uint32_t v : flow_.units[u].outputs) {
        const Shape& s = flow_.values[v].shape;
        if (s.size() != 4) continue;
        if (saturated_product(s[1], s[3]) == p.in) return s[1];
        if (saturated_product(s[2], s[3]) == p.in) return s[2];
      }
    }
    return 0;
  }

  void find_head() {
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
      const std::string_view name = flow_.units[u].name;
      if (name.find("cross_entropy") == std::string_view::npos && name.find("nll_loss") == std::string_view::npos)
        continue;
      std::set<std::uint32_t> fed_by;
      std::set<std::uint32_t> between;
      for (const Input& in : flow_.units[u].inputs) walk_back(in.value, fed_by, between);
      if (fed_by.size() != 1 || out_.roles[*fed_by.begin()] != Role::kWhole) continue;
      out_.head = *fed_by.begin();
      out_.loss = u;
      out_.roles[out_.head] = Role::kHead;
      out_.roles[u] = Role::kLogits;
      for (const std::uint32_t b : between) out_.roles[b] = Role::kLogits;
    }
  }

  void find_table() {
    if (out_.head == kNone) return;
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
      if (flow_.units[u].name != "aten::embedding") continue;
      const OpView op = view(u);
      if (!op.tensor(0, 2) || op[0].shape()[0] != out_.products[out_.head].out) continue;
      out_.table = u;
      out_.roles[u] = Role::kTable;
      out_.table_rows = op[0].shape()[0];
      out_.table_columns = op[0].shape()[1];
      return;
    }
  }

  // Where keys and values have fewer heads, their projections are the narrower ones that feed attention.
  void mark_key_values() {
    if (out_.key_heads >= out_.heads) return;
    for (const std::uint32_t row : out_.rows) {
      const Product& p = out_.products[row];
      if (p.in % out_.heads != 0) continue;
      std::set<std::uint32_t> fed_by;
      std::set<std::uint32_t> between;
      if (!walk_back(p.input, fed_by, between)) continue;
      for (const std::uint32_t u : fed_by) {
        for (const std::uint32_t same : columns_like(u)) {
          Product& narrow = out_.products[same];
          narrow.key_value = narrow.out == p.in / out_.heads * out_.key_heads;
        }
      }
    }
  }

  // A product divided by columns, and the others divided so that read the same input.
  [[nodiscard]] std::vector<std::uint32_t> columns_like(std::uint32_t unit) const {
    std::vector<std::uint32_t> out{unit};
    const std::uint32_t input = out_.products[unit].input;
    for (std::uint32_t u = 0; input != kNone && u < flow_.units.size(); ++u) {
      const bool column = out_.roles[u] == Role::kColumn && out_.products[u].input != kNone && u != unit;
      if (column && flow_.content(out_.products[u].input) == flow_.content(input)) out.push_back(u);
    }
    return out;
  }

  void group_columns() {
    std::map<std::uint32_t, std::vector<std::uint32_t>> by_input;
    for (std::uint32_t u = 0; u < flow_.units.size(); ++u) {
      const std::uint32_t in = out_.products[u].input;
      if (out_.roles[u] == Role::kColumn && in != kNone) by_input[flow_.content(in)].push_back(u);
    }
    for (auto& [input, units] : by_input) out_.groups.push_back(std::move(units));
  }

  const Model& m_;
  const Dataflow& flow_;
  DividedProducts out_;
};

}  // namespace

std::vector<Product> weight_products(const Model& model, const Dataflow& flow) {
  const std::set<Shape> stacked = stacked_parameters(*model.trace);
  std::vector<Product> products;
  for (const Unit& u : flow.units) products.push_back(product_of(model, flow, u, stacked));
  return products;
}

Result<DividedProducts> find_products(const Model& model, const Dataflow& flow) {
  return ProductDivider(model, flow).run();
}

}  // namespace foretrace::whatif
