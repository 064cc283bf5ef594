#include <fmt/format.h>

#include <algorithm>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/gpus.hpp"
#include "whatif/sharding/divide.hpp"
#include "whatif/sharding/group.hpp"
#include "whatif/sharding/pass_rows.hpp"

namespace foretrace::whatif {
namespace {

using hardware::Collective;

// Heads and features must be the same number on every GPU.
Status check_sizes(const DividedProducts& found, std::int64_t size, bool replicates) {
  const auto refuse = [&](std::string_view what, std::int64_t count) {
    return fail(ErrorCode::kDeclined, fmt::format("{} {} cannot be divided over {} GPUs", count, what, size),
                "choose a size that divides them");
  };
  if (found.heads % size != 0) return refuse("heads", found.heads);
  const bool repeats = replicates && size % found.key_heads == 0;
  if (found.key_heads % size != 0 && !repeats) return refuse("heads of keys", found.key_heads);
  for (const auto& group : found.groups) {
    for (const std::uint32_t u : group) {
      const Product& p = found.products[u];
      if (p.out % size != 0 && !p.key_value) return refuse("columns of a product", p.out);
    }
  }
  return {};
}

// Collectives of the products: where they stand and what they move.
class Exchanges {
 public:
  Exchanges(Model& m, Group& group, const std::vector<Row>& rows, const Division& d, bool async)
      : m_(m), group_(group), d_(d), async_(async), rows_(m, rows, d) {}

  void add() {
    for (const std::uint32_t u : d_.products.rows) row_product(u);
    for (const auto& units : d_.products.groups) column_products(units);
    if (!d_.vocabulary) return;
    if (d_.products.head != kNone) column_products({d_.products.head});
    if (d_.products.table != kNone) sum_behind(d_.products.table, static_cast<double>(d_.products.table_columns));
    if (d_.products.loss != kNone) loss();
  }

 private:
  using Rows = PassRows::Rows;

  void add_collective(const Place& at, Collective kind, double bytes, std::uint32_t task, const std::string& name) {
    group_.add_collective({at, at, kind, bytes, m_.graph.phase[task], name});
  }
  void behind(const Rows& rows, Collective kind, double bytes, const std::string& name) {
    for (const std::uint32_t t : rows_.tasks(rows, true))
      add_collective(place_behind(m_.graph, t), kind, bytes, t, name);
  }
  void before(const Rows& rows, Collective kind, double bytes, const std::string& name) {
    for (const std::uint32_t t : rows_.tasks(rows, false))
      add_collective(place_before(m_.graph, t), kind, bytes, t, name);
  }

  // Positions that a product works on: the trace's, as earlier changes left them.
  [[nodiscard]] double positions(const Product& p) const {
    return static_cast<double>(p.experts * p.rows) * m_.pass_samples;
  }

  void row_product(std::uint32_t u) {
    const Product& p = d_.products.products[u];
    const double bytes = positions(p) * static_cast<double>(p.out) * static_cast<double>(rows_.written(u));
    behind(rows_.forward(u), d_.sequence ? Collective::kReduceScatter : Collective::kAllReduce, bytes,
           "tensor parallel: sum of a row product");
    if (d_.sequence)
      before(rows_.backward(u), Collective::kAllGather, bytes, "tensor parallel: gradient of all positions");
  }

  void column_products(const std::vector<std::uint32_t>& units) {
    const Rows ahead = rows_.forward(units), back = rows_.backward(units);
    const Product& p = d_.products.products[units.front()];
    const double bytes = positions(p) * static_cast<double>(p.in) * static_cast<double>(p.input_bytes);
    if (d_.sequence) {
      before(ahead, Collective::kAllGather, bytes, "tensor parallel: input of all positions");
      gather_input_again(back, bytes);
    }
    reduce_input_gradient(p, back, d_.sequence ? Collective::kReduceScatter : Collective::kAllReduce, bytes);
  }

  // Only weights' gradients need it: with async, the input's gradients are computed meanwhile.
  void gather_input_again(const Rows& back, double bytes) {
    const std::vector<std::uint32_t> first = rows_.tasks(back, false);
    const std::vector<std::uint32_t> done = async_ ? behind_input_gradients(back) : std::vector<std::uint32_t>{};
    for (std::size_t i = 0; i < first.size(); ++i) {
      const Place from = place_before(m_.graph, first[i]);
      const Place at = done.size() == first.size() ? place_behind(m_.graph, done[i]) : from;
      group_.add_collective({from, at, Collective::kAllGather, bytes, m_.graph.phase[first[i]],
                             "tensor parallel: input again, for the weight's gradient"});
    }
  }

  // The gradients of all products of a group are added up first; what made their input waits for the sum.
  void reduce_input_gradient(const Product& p, const Rows& back, Collective kind, double bytes) {
    constexpr const char* kName = "tensor parallel: sum of the input's gradient";
    const std::uint32_t made = p.input == kNone ? kNone : d_.flow.values[d_.flow.content(p.input)].producer;
    const Rows& next = made == kNone ? back : rows_.backward(made);
    std::vector<std::uint32_t> waiting = made == kNone ? std::vector<std::uint32_t>{} : rows_.tasks(next, false);
    // A compiler may have made what waits part of another kernel: that one is behind all of these.
    const bool known = !waiting.empty();
    if (!known) waiting = rows_.tasks(back, true);
    const std::vector<std::uint32_t> begun = async_ ? behind_input_gradients(back) : std::vector<std::uint32_t>{};
    for (std::size_t i = 0; i < waiting.size(); ++i) {
      const Place at = known ? place_before(m_.graph, waiting[i]) : place_behind(m_.graph, waiting[i]);
      const bool early = begun.size() == waiting.size() && begun[i] < waiting[i];
      const Place from = early ? place_behind(m_.graph, begun[i]) : at;
      group_.add_collective({from, at, kind, bytes, m_.graph.phase[waiting[i]], kName});
    }
  }

  // Where the sum of the input's gradient can begin, by run: input gradients first, those of weights behind them. In which order a recorded
  // stream has the two says nothing of when all are done, so it is behind as much work as the input's gradients are.
  [[nodiscard]] std::vector<std::uint32_t> behind_input_gradients(const Rows& back) const {
    if (back.empty()) return {};
    const auto runs = static_cast<std::size_t>(times_run(m_, *back.front()));
    std::vector<std::uint32_t> out;
    for (std::size_t run = 0; run < runs; ++run) {
      std::vector<std::uint32_t> tasks;
      Ns of_inputs = 0;
      for (const Row* row : back) {
        const auto* g = std::get_if<work::Gemm>(&m_.works[row->work].kind);
        const std::size_t each = row->tasks.size() / runs;
        for (std::size_t i = run * each; i < (run + 1) * each; ++i) {
          tasks.push_back(row->tasks[i]);
          if (g != nullptr && !g->weight_grad) of_inputs += m_.graph.cost[row->tasks[i]];
        }
      }
      if (of_inputs == 0) return {};
      std::sort(tasks.begin(), tasks.end());
      Ns done = 0;
      const auto last = std::find_if(tasks.begin(), tasks.end(), [&](std::uint32_t t) {
        done += m_.graph.cost[t];
        return done >= of_inputs;
      });
      out.push_back(last == tasks.end() ? tasks.back() : *last);
    }
    return out;
  }

  void sum_behind(std::uint32_t unit, double columns) {
    const double rows = positions(d_.products.products[d_.products.head]);
    behind(rows_.forward(unit), d_.sequence ? Collective::kReduceScatter : Collective::kAllReduce, rows * columns * 4,
           "tensor parallel: sum of the lookups");
  }

  // The largest logit of every row, the sum of the exponentials and the logit of the target.
  void loss() {
    const double bytes = positions(d_.products.products[d_.products.head]) * 4;
    for (int i = 0; i < 3; ++i)
      behind(rows_.forward(d_.products.loss), Collective::kAllReduce, bytes,
             "tensor parallel: the loss of divided logits");
  }

  Model& m_;
  Group& group_;
  const Division& d_;
  bool async_;
  PassRows rows_;
};

Status apply_tp(Model& m, Draft& draft, const Parameters& p) {
  if (p.number("size") == 1) {
    draft.note_change();  // one GPU has it all
    return {};
  }
  FORETRACE_TRY(const std::unique_ptr<Group> group, Group::make(m, draft, p));
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  FORETRACE_TRY(const DividedProducts found, find_products(m, *flow));
  const auto size = static_cast<std::int64_t>(p.number("size"));
  FORETRACE_TRY_VOID(check_sizes(found, size, p.text("kv") == "replicated"));
  const Division division{found, *flow, size, p.text("vocab") == "parallel", p.text("sequence") == "1", m.pass_samples};
  const std::vector<Row> rows = rows_of(m, draft);
  if (division.sequence && p.text("reduce") == "1" && missing(m, Need::kBackward).empty()) {
    // Each GPU has the gradients of norms and biases for its positions only.
    FORETRACE_TRY_VOID(group->reduce_gradients([](const Gradient& g) { return g.rows > 0; }));
  }
  Exchanges(m, *group, rows, division, p.text("async") == "1").add();
  group->finish();
  divide_rows(m, draft, rows, division);
  divide_state(m, draft, rows, division);
  return multiply_gpus(m, size, Batches::kShared);
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> out = group_parameters();
  const auto add = [&](std::string name, std::string about, std::string otherwise, std::vector<std::string> choices) {
    out.push_back({std::move(name), std::move(about), std::move(otherwise), std::move(choices)});
  };
  add("sequence", "1: what is outside the products works on 1/size of the positions", "0", {"0", "1"});
  add("vocab", "whether embedding, head and loss are divided too", "parallel", {"parallel", "replicated"});
  add("kv", "heads of keys and values below size: repeated, or the division refused", "replicated",
      {"replicated", "refused"});
  add("reduce", "0: with sequence=1, gradients of norms are not summed over the GPUs", "1", {"1", "0"});
  add("async",
      "1: the input's gradient is computed first; its sum overlaps the weight's gradient, with sequence=1 a gather it",
      "0", {"0", "1"});
  return out;
}

const Registered kRegistered(
    {.name = "tp",
     .about = "tensor parallel: heads and features of every layer divided over several GPUs",
     .parameters = parameters(),
     .assumes = "query, key, value, up and gate are divided by columns, output and down by rows; the batch stays that "
                "of one replica",
     .source = "Megatron-LM (arXiv 1909.08053), its sequence parallelism (arXiv 2205.05198)",
     .not_modelled = "kernels that overlap a product with its own collective",
     .needs = {Need::kShapes},
     .changes = Changes::kWorkers,
     .parts = {.memory = Part::kModelled},
     .code = "parallelize_module(model, mesh, {\"attention.wq\": ColwiseParallel(), \"attention.wo\": "
             "RowwiseParallel(), …})",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_tp,
     .check = check_group,
     .whole_program = "a compiled program's kernels do not show which product they belong to"});

}  // namespace
}  // namespace foretrace::whatif
