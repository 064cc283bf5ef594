#include "whatif/sharding/divide.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "base/saturate.hpp"
#include "trace/latencies.hpp"
#include "whatif/dataflow/op_facts.hpp"
#include "whatif/rewrite/attention_heads.hpp"

namespace foretrace::whatif {

using work::Work;

namespace {

void part(std::int64_t& size, double share) {
  if (size > 0) size = std::max<std::int64_t>(1, saturated(std::round(static_cast<double>(size) * share)));
}

void scale(Work& w, double share) {
  part(w.elements, share);
  w.flops *= share;
  w.bytes_read *= share, w.bytes_written *= share, w.fixed_read *= share, w.fixed_written *= share;
}

// Of a product and its gradients, the dimension along `feature`: columns of the result or rows of the weight.
void divide_gemm(work::Gemm& g, const Product& p, bool backward, bool by_columns, double share) {
  const std::int64_t feature = by_columns ? p.out : p.in;
  const bool weight_grad = backward && (g.weight_grad || std::minmax(g.m, g.n) == std::minmax(p.in, p.out));
  if (weight_grad) return part(g.m == feature ? g.m : g.n, share);
  // The gradient of the input is a product with the transposed weight.
  part(by_columns == backward ? g.k : g.n, share);
}

// Whole rows of logits become parts of rows.
Work divide_logits(Work w, double share) {
  if (auto* rows = std::get_if<work::Rows>(&w.kind); rows != nullptr && rows->columns > 1) part(rows->columns, share);
  scale(w, share);
  refresh(w);
  return w;
}

Work divide_table(Work w, double share) {
  if (!w.backward) return w;
  if (auto* g = std::get_if<work::Gather>(&w.kind)) part(g->table, share);
  refresh(w);
  return w;
}

bool holds(const memory::Block& b, std::int64_t elements) {
  return std::ranges::any_of(std::array{2, 4},
                             [&](int size) { return memory::could_hold(b, saturated_product(elements, size)); });
}

std::int64_t times(std::int64_t bytes, double share) {
  const std::int64_t exact = saturated(std::ceil(static_cast<double>(bytes) * share));
  return (exact + memory::kGrain - 1) / memory::kGrain * memory::kGrain;
}

}  // namespace

Role Division::role(std::uint32_t unit) const {
  if (unit == kNone || unit >= products.roles.size()) return Role::kWhole;
  const Role r = products.roles[unit];
  const bool of_vocabulary = r == Role::kHead || r == Role::kLogits || r == Role::kTable;
  return of_vocabulary && !vocabulary ? Role::kWhole : r;
}

double Division::share(std::uint32_t unit) const {
  const bool few = products.products[unit].key_value && products.key_heads < size;
  return 1.0 / static_cast<double>(few ? products.key_heads : size);
}

std::int64_t Division::elements(const Product& p, std::int64_t features) const {
  const auto traced = static_cast<double>(p.experts) * static_cast<double>(p.rows) * static_cast<double>(features);
  return saturated(std::round(traced * samples));
}

std::uint32_t Division::unit_of(std::uint32_t event) const {
  if (event == kNone) return kNone;
  const std::uint32_t forward = flow.unit_of(event);
  return forward != kNone ? forward : flow.backward_of(event).unit;
}

Work Division::divide(const Work& was, std::uint32_t unit) const {
  const Role r = role(unit);
  const double each = 1.0 / static_cast<double>(size);
  Work w = was;
  if (r == Role::kTable) return divide_table(w, each);
  if (r == Role::kLogits) return divide_logits(w, each);
  if (r == Role::kInside) {
    auto* attention = std::get_if<work::Attention>(&w.kind);
    if (attention == nullptr) return with_batch(was, each);
    divide_heads(*attention, size);
    refresh(w);
    return w;
  }
  const bool divided = r == Role::kColumn || r == Role::kRow || r == Role::kHead;
  if (!divided) {
    // The logits of a head that every GPU has are whole, and so is what embeds tokens.
    const bool of_vocabulary = unit != kNone && products.roles[unit] != Role::kWhole;
    return sequence && !of_vocabulary && !w.of_parameters && unit != kNone ? with_batch(was, each) : w;
  }
  const Product& p = products.products[unit];
  if (auto* g = std::get_if<work::Gemm>(&w.kind)) {
    divide_gemm(*g, p, was.backward, r != Role::kRow, share(unit));
    refresh(w);
    return w;
  }
  // Casts and copies: of the weight, of the input, of the result.
  const bool weight = w.elements == p.weight() || w.of_parameters;
  const bool input = !weight && w.elements == elements(p, p.in);
  const bool output = !weight && !input && w.elements == elements(p, p.out);
  if (weight || (r == Role::kRow ? input : output)) scale(w, share(unit));
  return w;
}

std::int64_t Division::divide(const memory::Block& b, std::uint32_t unit) const {
  const Role r = role(unit);
  const double each = 1.0 / static_cast<double>(size);
  if (r == Role::kInside || r == Role::kLogits) return b.workspace ? b.bytes : times(b.bytes, each);
  const bool table = unit != kNone && products.roles[unit] == Role::kTable;
  if (r == Role::kTable) {
    const bool grad = holds(b, saturated_product(products.table_rows, products.table_columns));
    return grad ? times(b.bytes, each) : b.bytes;
  }
  if (r == Role::kWhole) {
    const bool of_samples = !b.of_parameters && b.kind != memory::Kind::kGradient && b.kind != memory::Kind::kResident;
    const bool whole = unit == kNone || table || products.roles[unit] != Role::kWhole;
    return sequence && of_samples && !whole && !b.workspace ? times(b.bytes, each) : b.bytes;
  }
  const Product& p = products.products[unit];
  const bool weight = holds(b, p.weight());
  // What the product itself allocates is its result; of the same size may be a copy of its input.
  const bool result = multiplies_weights(flow.trace->name(b.op));
  const bool square = p.in == p.out;
  const bool input = holds(b, elements(p, p.in)) && !(square && result);
  const bool output = holds(b, elements(p, p.out)) && (!square || result);
  return weight || (r == Role::kRow ? input : output) ? times(b.bytes, share(unit)) : b.bytes;
}

void divide_rows(Model& m, Draft& draft, const std::vector<Row>& rows, const Division& d) {
  for (const Row& row : rows) {
    if (row.phase == Phase::kOptimizer || row.phase == Phase::kCommunication) continue;
    const Work was = m.works[row.work];
    const std::uint32_t unit = d.unit_of(was.op_event);
    if (unit == kNone) continue;
    const bool sums = d.flow.unit_of(was.op_event) == kNone && d.flow.backward_of(was.op_event).sums;
    if (sums && !d.sequence && d.role(unit) != Role::kInside) continue;
    const Work becomes = d.divide(was, unit);
    if (becomes.flops == was.flops && becomes.bytes() == was.bytes() && becomes.kind == was.kind) continue;
    hardware::Cost cost = rescale_row(m, row, becomes);
    if (!cost.known) {
      const auto least = static_cast<double>(m.latencies->short_kernel) * static_cast<double>(row.tasks.size());
      const auto time = static_cast<double>(row.time);
      cost.ns = std::max(std::min(time, least), time / static_cast<double>(d.size));
    }
    cost.origin = graph::Origin::kScaled;
    set_row(m, draft, row, cost, becomes);
  }
}

namespace {

// Elements of parameters that one GPU no longer has.
double parameters_gone(const Model& m, const std::vector<Row>& rows, const Division& d) {
  const bool deeper = std::any_of(m.applied.begin(), m.applied.end(),
                                  [](const Model::Applied& a) { return a.changes == Changes::kDepth; });
  std::vector<double> runs(d.products.roles.size(), 1);
  for (const Row& row : rows) {
    const std::uint32_t unit = d.unit_of(m.works[row.work].op_event);
    if (deeper && unit != kNone && is_product(m.works[row.work])) runs[unit] = times_run(m, row);
  }
  double gone = 0;
  for (std::uint32_t u = 0; u < d.products.roles.size(); ++u) {
    const Role r = d.role(u);
    const bool divided = r == Role::kColumn || r == Role::kRow || r == Role::kHead;
    if (divided) gone += runs[u] * static_cast<double>(d.products.products[u].weight()) * (1 - d.share(u));
  }
  if (d.products.table == kNone || d.role(d.products.table) != Role::kTable) return gone;
  const double each = 1.0 / static_cast<double>(d.size);
  const double table = static_cast<double>(d.products.table_rows) * static_cast<double>(d.products.table_columns);
  // A head that shares the table's weight has been counted.
  const double all = static_cast<double>(m.parameter_elements);
  return gone / (1 - each) + table <= all ? gone + table * (1 - each) : gone;
}

}  // namespace

void keep_parameters(Model& m, Draft& draft, double left) {
  draft.scale(draft.select({.gpu = true, .phase = Phase::kOptimizer}), left);
  m.parameter_elements = saturated(std::round(static_cast<double>(m.parameter_elements) * left));
  if (!m.memory) return;
  memory::Curve& c = *m.memory;
  // Gradients of the step before, where they are there when this one begins.
  for (memory::Block& b : c.blocks) {
    if (b.kind == memory::Kind::kGradient && b.op == kNone) b.bytes = times(b.bytes, left);
  }
  for (std::int64_t* const bytes : {&c.parameter_bytes, &c.state_bytes}) {
    const std::int64_t now = saturated(static_cast<double>(*bytes) * left);
    c.start_bytes -= *bytes - now;
    *bytes = now;
  }
}

void divide_state(Model& m, Draft& draft, const std::vector<Row>& rows, const Division& d) {
  const double gone = parameters_gone(m, rows, d);
  const double all = static_cast<double>(m.parameter_elements);
  keep_parameters(m, draft, all > gone ? (all - gone) / all : 1);
  if (!m.memory) return;
  for (memory::Block& b : m.memory->blocks) {
    if (b.stage == memory::Stage::kUpdate || b.op == kNone) continue;
    const std::uint32_t unit = d.unit_of(b.op);
    if (unit != kNone) b.bytes = d.divide(b, unit);
  }
}

}  // namespace foretrace::whatif
