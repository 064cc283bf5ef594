#include "whatif/sharding/experts.hpp"

#include <algorithm>
#include <cmath>

#include "base/saturate.hpp"
#include "trace/latencies.hpp"
#include "whatif/sharding/divide.hpp"

namespace foretrace::whatif {

using work::Work;

namespace {

// Where a layer's experts begin or end: tokens are picked, or another layer computes.
bool ends_layer(const Unit& u) {
  for (const std::string_view mark : {"index", "gather", "embedding", "norm", "sort", "scatter", "attention"}) {
    if (u.name.find(mark) != std::string_view::npos) return true;
  }
  return false;
}

// Products of experts that follow each other, with nothing in between that picks tokens or multiplies them by other weights.
Experts layers_of(const Model& m, const Dataflow& flow) {
  Experts out;
  out.products = weight_products(m, flow);
  out.inside.assign(flow.units.size(), 0);
  std::uint32_t first = kNone;  // of the layer at hand
  std::vector<std::uint32_t> between;
  for (std::uint32_t u = 0; u < flow.units.size(); ++u) {
    Product& p = out.products[u];
    if (p.known() && p.experts > 1) {
      out.count = std::max(out.count, p.experts);
      if (first == kNone) {
        first = u;
        out.layers.emplace_back();
      }
      ExpertLayer& layer = out.layers.back();
      const Product& leader = out.products[first];
      const bool same_input =
          p.input != kNone && leader.input != kNone && flow.content(p.input) == flow.content(leader.input);
      if (u == first || same_input) layer.first.push_back(u);
      layer.last = u;
      for (const std::uint32_t inner : between) out.inside[inner] = 1;
      between.clear();
    } else if (p.known() || ends_layer(flow.units[u])) {
      p = {};
      first = kNone;
      between.clear();
    } else if (first != kNone) {
      between.push_back(u);
    }
  }
  return out;
}

void times(std::int64_t& size, double by) {
  if (size > 0) size = std::max<std::int64_t>(1, saturated(std::round(static_cast<double>(size) * by)));
}

void scale(Work& w, double by) {
  times(w.elements, by);
  w.flops *= by;
  w.bytes_read *= by, w.bytes_written *= by, w.fixed_read *= by, w.fixed_written *= by;
}

bool holds(const memory::Block& b, double elements) {
  return memory::could_hold(b, saturated(elements * 2)) || memory::could_hold(b, saturated(elements * 4));
}

// Is a tensor as large as a weight that weight's copy or gradient? Where tokens happen to be as many as features, results have
// its size, too: the operation that made it tells.
bool of_weights(const ExpertDivision& d, std::uint32_t event, const Product& p) {
  if (event == kNone) return true;
  const trace::Trace& trace = *d.flow.trace;
  const std::string_view name = trace.name(event);
  const work::OpView op(trace, trace.events.args[event]);
  const bool product = name == "aten::bmm" || name == "aten::matmul" || name == "aten::_grouped_mm";
  if (product && d.flow.unit_of(event) != kNone) return false;  // its result
  work::Shape shape;
  if (product && op.tensor(0, 3) && op.tensor(1, 3)) {
    shape = {op[0].shape()[0], op[0].shape()[1], op[1].shape()[2]};
  } else if (name == "aten::empty_strided" || name == "aten::empty") {
    shape = op.integers(0);
  } else if (op.size() > 0 && op.tensor(0, 1)) {
    shape = op[0].shape();
  }
  if (shape == work::Shape{p.experts, p.in, p.out}) return true;
  return shape != work::Shape{p.experts, p.rows, p.in} && shape != work::Shape{p.experts, p.rows, p.out};
}

std::int64_t rounded(double bytes) {
  return (saturated(std::ceil(bytes)) + memory::kGrain - 1) / memory::kGrain * memory::kGrain;
}

}  // namespace

Result<Experts> find_experts(const Model& model, const Dataflow& flow) {
  Experts found = layers_of(model, flow);
  if (!found.layers.empty()) return found;
  return fail(ErrorCode::kDeclined,
              "no product of this step has the weights of several experts (bmm, _grouped_mm): which work is an "
              "expert's is not known");
}

std::uint32_t ExpertDivision::unit_of(std::uint32_t event) const {
  if (event == kNone) return kNone;
  const std::uint32_t forward = flow.unit_of(event);
  const std::uint32_t unit = forward != kNone ? forward : flow.backward_of(event).unit;
  if (unit == kNone || (!experts.products[unit].known() && experts.inside[unit] == 0)) return kNone;
  return unit;
}

Work ExpertDivision::divide(const Work& was, std::uint32_t unit) const {
  const Product& p = experts.products[unit];
  const double each = 1.0 / static_cast<double>(size);
  Work w = was;
  if (auto* g = std::get_if<work::Gemm>(&w.kind); g != nullptr && p.known()) {
    const std::int64_t rows = saturated(std::round(static_cast<double>(p.rows) * samples));
    // A weight's gradient has the weight's shape and sums over the tokens; all else has a row for each of them.
    const bool weight = was.backward && g->m == p.in && g->n == p.out && !(g->m == rows && g->n == p.in);
    const bool columns = !weight && g->m != rows && g->n == rows;
    times(weight ? g->k : columns ? g->n : g->m, static_cast<double>(size) * load);
    times(g->batch, each);
    refresh(w);
    return w;
  }
  const bool weight = p.known() && (w.of_parameters || (w.elements == p.weight() && of_weights(*this, w.op_event, p)));
  if (weight) {
    scale(w, each);
  } else if (load != 1 && !w.of_parameters) {
    w = with_batch(w, load);
  }
  return w;
}

std::int64_t ExpertDivision::divide(const memory::Block& b, std::uint32_t unit) const {
  const Product& p = experts.products[unit];
  const auto bytes = static_cast<double>(b.bytes);
  const bool weight = p.known() && holds(b, static_cast<double>(p.weight()));
  if (weight && (b.kind == memory::Kind::kGradient || of_weights(*this, b.op, p)))
    return rounded(bytes / static_cast<double>(size));
  const bool of_tokens = !b.workspace && !b.of_parameters && b.kind != memory::Kind::kGradient;
  return of_tokens && load != 1 ? rounded(bytes * load) : b.bytes;
}

void divide_experts(Model& m, Draft& draft, const std::vector<Row>& rows, const ExpertDivision& d) {
  std::vector<double> runs(d.experts.products.size(), 1);
  for (const Row& row : rows) {
    if (row.phase == Phase::kOptimizer || row.phase == Phase::kCommunication) continue;
    const Work was = m.works[row.work];
    const std::uint32_t unit = d.unit_of(was.op_event);
    if (unit == kNone) continue;
    if (row.phase == Phase::kForward && is_product(was)) runs[unit] = times_run(m, row);
    const Work becomes = d.divide(was, unit);
    if (becomes.flops == was.flops && becomes.bytes() == was.bytes() && becomes.kind == was.kind) continue;
    hardware::Cost cost = rescale_row(m, row, becomes);
    if (!cost.known) {
      const auto time = static_cast<double>(row.time);
      cost.ns = was.bytes() > 0 ? time * becomes.bytes() / was.bytes() : time;
    }
    cost.origin = graph::Origin::kScaled;
    cost.sigma = std::hypot(cost.sigma, d.uncertainty);
    set_row(m, draft, row, cost, becomes);
  }
  const bool deeper = std::any_of(m.applied.begin(), m.applied.end(),
                                  [](const Model::Applied& a) { return a.changes == Changes::kDepth; });
  double gone = 0;
  for (std::size_t u = 0; u < d.experts.products.size(); ++u) {
    const Product& p = d.experts.products[u];
    if (p.known())
      gone += (deeper ? runs[u] : 1) * static_cast<double>(p.weight()) * (1 - 1.0 / static_cast<double>(d.size));
  }
  const auto all = static_cast<double>(m.parameter_elements);
  keep_parameters(m, draft, all > gone ? (all - gone) / all : 1);
  if (!m.memory) return;
  for (memory::Block& b : m.memory->blocks) {
    if (b.stage == memory::Stage::kUpdate || b.op == kNone) continue;
    if (const std::uint32_t unit = d.unit_of(b.op); unit != kNone) b.bytes = d.divide(b, unit);
  }
}

}  // namespace foretrace::whatif
