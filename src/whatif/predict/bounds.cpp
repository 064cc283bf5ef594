#include "whatif/predict/bounds.hpp"

#include <algorithm>
#include <cmath>

#include "graph/busy_time.hpp"
#include "hardware/cost.hpp"

namespace foretrace::whatif {

namespace {

// The operand of a product that does not grow with the samples. Products of many matrices multiply activations.
double weight_bytes(const work::Work& w) {
  const auto* gemm = std::get_if<work::Gemm>(&w.kind);
  if (gemm == nullptr || gemm->batch != 1 || gemm->weight_grad) return 0;
  return static_cast<double>(gemm->n) * static_cast<double>(gemm->k) * static_cast<double>(work::bytes_of(w.dtype));
}

double all_weights(const work::Works& works) {
  double bytes = 0;
  for (const work::Work& w : works.rows) bytes += weight_bytes(w);
  return bytes;
}

bool is_host_copy(const work::Work& w) {
  const auto* copy = std::get_if<work::MemoryCopy>(&w.kind);
  return copy != nullptr && copy->host;
}

// No GPU does this work faster. `streams`: the weights of the step do not fit into its cache, so each product reads its own again.
double floor_ns(const work::Work& w, const hardware::Device& d, bool streams) {
  if (is_host_copy(w)) return d.pcie_gbs > 0 ? w.bytes_read / d.pcie_gbs : 0;
  const double weights = streams && d.bandwidth_gbs > 0 ? weight_bytes(w) / d.bandwidth_gbs : 0;
  return std::max(hardware::roofline_ns(w, d), weights);
}

bool streams_weights(double bytes, const hardware::Device& d) { return bytes > d.l2_mb * 1e6; }

// The times of these tasks are the question's own.
bool times_are_given(const Model& changed) {
  return std::any_of(changed.applied.begin(), changed.applied.end(),
                     [](const Model::Applied& a) { return a.changes == Changes::kCosts; });
}

}  // namespace

Bounds::Bounds(const Model& base, Ns today)  {
  const graph::Graph& g = base.graph;
  // Kernels keep their places relative to each other when all of them are a little faster without the profiler.
  const double gpu = base.base.factors.gpu > 0 ? base.base.factors.gpu : 1;
  std::vector<double> measured(base.works.size(), 0.0);
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || g.lanes[g.lane[t]].kind != graph::GraphLaneKind::kGpu) continue;
    const std::uint32_t row = base.works.row_of(t);
    if (row < measured.size()) measured[row] += static_cast<double>(g.cost[t]);
    if (!g.event[t].valid()) continue;
    recorded_.push_back({std::llround(gpu * static_cast<double>(g.measured[t])), g.cost[t], g.event[t].value});
  }
  std::stable_sort(recorded_.begin(), recorded_.end(),
                   [](const Recorded& a, const Recorded& b) { return a.begin < b.begin; });
  by_event_.resize(recorded_.size());
  for (std::uint32_t i = 0; i < by_event_.size(); ++i) by_event_[i] = i;
  std::stable_sort(by_event_.begin(), by_event_.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return recorded_[a].event < recorded_[b].event; });
  // What is faster than its description allows does less than its description says, and will after a change.
  const bool streams = streams_weights(all_weights(base.works), base.device);
  for (std::size_t row = 0; row < measured.size(); ++row) {
    const work::Work& w = base.works[row];
    const double floor = floor_ns(w, base.device, streams);
    if (w.op_event == kNone || floor <= measured[row]) continue;
    double& share = faster_than_described_.try_emplace(w.op_event, 1.0).first->second;
    share = std::min(share, measured[row] / floor);
  }
  const Ns busy = of(base).step;
  // Where the simulation of today is shorter than the recorded work, that much of the overlap was not recorded.
  if (busy > today && busy > 0) today_share_ = static_cast<double>(today) / static_cast<double>(busy);
}

Bound Bounds::of(const Model& changed) const {
  const graph::Graph& g = changed.graph;
  const bool given = times_are_given(changed);
  const bool streams = streams_weights(all_weights(changed.works), changed.device);
  std::vector<double> row_time(changed.works.size(), 0.0);  // of the changed tasks of a row: its floor is divided among them
  std::vector<Ns> kept(recorded_.size(), 0);  // by place in recorded_: what its task takes at least
  std::vector<std::pair<std::uint32_t, std::uint32_t>> altered;  // task, its place in recorded_ or kNone
  std::vector<double> lanes(g.lanes.size(), 0.0);
  double as_traced = 0, over_link = 0, at_peak = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || g.lanes[g.lane[t]].kind != graph::GraphLaneKind::kGpu) continue;
    std::uint32_t place = kNone;
    if (g.event[t].valid()) {
      const auto at = std::lower_bound(by_event_.begin(), by_event_.end(), g.event[t].value,
                                       [&](std::uint32_t i, std::uint32_t e) { return recorded_[i].event < e; });
      if (at != by_event_.end() && recorded_[*at].event == g.event[t].value) place = *at;
    }
    const bool left_alone = place != kNone && g.cost[t] >= recorded_[place].cost;
    if (left_alone || given) {
      if (place != kNone) kept[place] = std::max(kept[place], std::min(g.cost[t], recorded_[place].cost));
      lanes[g.lane[t]] += static_cast<double>(g.cost[t]);
      as_traced += static_cast<double>(g.cost[t]);
      continue;
    }
    const std::uint32_t row = changed.works.row_of(t);
    if (row == kNone) continue;
    row_time[row] += static_cast<double>(g.cost[t]);
    altered.emplace_back(t, place);
  }
  for (const auto& [t, place] : altered) {
    const std::uint32_t row = changed.works.row_of(t);
    const work::Work& w = changed.works[row];
    const double part = row_time[row] > 0 ? static_cast<double>(g.cost[t]) / row_time[row] : 0;
    const auto faster = faster_than_described_.find(w.op_event);
    const double share = faster == faster_than_described_.end() ? 1 : faster->second;
    const double floor = floor_ns(w, changed.device, streams) * share * part;
    if (place != kNone) kept[place] = std::max(kept[place], std::min<Ns>(std::llround(floor), recorded_[place].cost));
    lanes[g.lane[t]] += floor;
    (is_host_copy(w) ? over_link : at_peak) += floor;
  }
  std::vector<std::pair<Ns, Ns>> spans;
  spans.reserve(recorded_.size());
  for (std::size_t i = 0; i < recorded_.size(); ++i) {
    if (kept[i] > 0) spans.emplace_back(recorded_[i].begin, recorded_[i].begin + kept[i]);
  }
  // A graph that reaches into the next step holds some work twice: only what the trace shows once counts.
  const bool twice = std::any_of(g.lanes.begin(), g.lanes.end(), [](const graph::GraphLane& lane) {
    return lane.role == graph::LaneRole::kPeriodMarks;
  });
  const double busiest = lanes.empty() || twice ? 0 : *std::max_element(lanes.begin(), lanes.end());
  const double least = std::max(static_cast<double>(graph::covered_time(spans)), busiest);
  Bound bound;
  bound.step = static_cast<Ns>(today_share_ * least);
  bound.by = as_traced >= std::max(at_peak, over_link) ? "GPU busy time" : at_peak >= over_link ? "roofline" : "PCIe";
  return bound;
}

}  // namespace foretrace::whatif
