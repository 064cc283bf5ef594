#include "whatif/job/stream_units.hpp"

#include <algorithm>

#include "whatif/rewrite/rows.hpp"
#include "work/op_view.hpp"

namespace foretrace::whatif {

namespace {

void read_inputs(const Model& m, EventId op, StreamUnit& unit) {
  const trace::OpInputs* inputs = m.trace->args.inputs(m.trace->events.args[op.index()]);
  if (inputs == nullptr || !inputs->dims.valid()) return;
  unit.known = true;
  const work::OpView view(*m.trace, m.trace->events.args[op.index()]);
  for (const work::Argument& argument : view.arguments()) {
    const bool matrix = std::any_of(argument.shapes.begin(), argument.shapes.end(),
                                    [](const work::Shape& shape) { return shape.size() > 1; });
    if (matrix) unit.reads.push_back(argument.elements());
  }
}

}  // namespace

WeightGradients::Sizes WeightGradients::sizes_of(const work::Gemm& g) {
  Sizes sizes{g.batch, g.m, g.n, g.k};
  std::sort(sizes.begin() + 1, sizes.end());
  return sizes;
}

WeightGradients::WeightGradients(const work::Works& works) {
  for (const work::Work& w : works.rows) {
    const auto* g = std::get_if<work::Gemm>(&w.kind);
    if (g != nullptr && g->batch > 1 && !w.backward) rows_.try_emplace(sizes_of(*g), g->m);
  }
}

// The gradient of a batch of weights sums over what are the rows of the forward product of these sizes, where only one size is as large.
bool WeightGradients::has(const work::Work& w) const {
  const auto* g = std::get_if<work::Gemm>(&w.kind);
  if (g == nullptr) return false;
  if (g->weight_grad || !w.backward || g->batch <= 1) return g->weight_grad;
  const Sizes sizes = sizes_of(*g);
  const auto forward = rows_.find(sizes);
  return forward != rows_.end() && forward->second == g->k && std::count(sizes.begin() + 1, sizes.end(), g->k) == 1;
}

bool StreamUnit::reads_size(std::int64_t elements) const {
  if (elements <= 0) return false;
  return left() == elements || right() == elements || std::find(reads.begin(), reads.end(), elements) != reads.end();
}

bool StreamUnit::by_rows() const {
  if (work == nullptr) return false;
  switch (work->family) {
    case work::Family::kElementwise:
    case work::Family::kCopy:
    case work::Family::kMemory:
    case work::Family::kLayerNorm:
    case work::Family::kSoftmax:
      return true;
    default:
      return false;
  }
}

bool StreamUnit::without(std::int64_t elements) const {
  if (collective || !known || elements <= 0) return false;
  if (work != nullptr && work->of_parameters) return true;
  if (result() == elements) return false;
  // A view of a part has a size that divides the whole; of what holds it, the other way round.
  return std::none_of(reads.begin(), reads.end(),
                      [&](std::int64_t n) { return n > 0 && (elements % n == 0 || n % elements == 0); });
}

StreamUnits::StreamUnits(const Model& m) : lane_(main_stream(m.graph)) {
  const Graph& g = m.graph;
  const graph::GraphLane& lane = g.lanes[lane_];
  const WeightGradients gradients(m.works);
  EventId op;
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
    const bool collective = g.kind[t] == TaskKind::kCollective;
    const bool same = !units_.empty() && !collective && !units_.back().collective && g.op[t].valid() && op.valid() &&
                      g.op[t].value == op.value;
    op = g.op[t];
    if (!same) {
      units_.push_back({.first = t, .last = t, .collective = collective});
      if (op.valid() && m.trace != nullptr) read_inputs(m, op, units_.back());
    }
    StreamUnit& unit = units_.back();
    unit.last = t;
    if (unit.work == nullptr) unit.work = m.works.of(t);
    if (unit.work == nullptr) continue;
    unit.product = std::get_if<work::Gemm>(&unit.work->kind);
    unit.weight_gradient = gradients.has(*unit.work);
  }
}

std::size_t StreamUnits::of(std::uint32_t task) const {
  const auto behind = std::upper_bound(units_.begin(), units_.end(), task,
                                       [](std::uint32_t t, const StreamUnit& unit) { return t < unit.first; });
  return static_cast<std::size_t>(behind - units_.begin()) - 1;
}

}  // namespace foretrace::whatif
