#include "whatif/predict/bounds.hpp"

#include <algorithm>
#include <cmath>

#include "graph/busy_time.hpp"
#include "hardware/cost.hpp"
#include "whatif/job/job_models.hpp"

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

// Kernels and copies of this GPU.
bool is_own_work(const graph::Graph& g, std::size_t t) {
  return graph::is_gpu(g.kind[t]) && g.lanes[g.lane[t]].kind == graph::GraphLaneKind::kGpu;
}

// The times of changed tasks are the question's own.
bool times_are_given(const Model& changed) {
  return std::any_of(changed.applied.begin(), changed.applied.end(),
                     [](const Model::Applied& a) { return a.changes == Changes::kCosts; });
}

}  // namespace

Bounds::Bounds(const Model& base, std::optional<Ns> measured_step, bool collectives) {
  if (base.job) {
    for (const auto& rank : base.job->ranks) of_ranks_.push_back(Bounds(*rank, measured_step, false));
    return;
  }
  const graph::Graph& g = base.graph;
  const double gpu = base.base.factors.gpu > 0 ? base.base.factors.gpu : 1;
  std::vector<double> measured(base.works.size(), 0.0);
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!is_own_work(g, t)) continue;
    const std::uint32_t row = base.works.row_of(t);
    if (row < measured.size()) measured[row] += static_cast<double>(g.cost[t]);
    if (!g.event[t].valid() || (!collectives && g.kind[t] == graph::TaskKind::kCollective)) continue;
    recorded_.push_back({g.measured[t], std::llround(static_cast<double>(g.cost[t]) / gpu), g.cost[t], g.event[t].value,
                         g.kind[t] == graph::TaskKind::kKernel || g.kind[t] == graph::TaskKind::kCollective});
  }
  std::stable_sort(recorded_.begin(), recorded_.end(),
                   [](const Recorded& a, const Recorded& b) { return a.begin < b.begin; });
  const Ns busy = busy_time(std::vector<bool>(recorded_.size(), true));
  if (measured_step && busy > *measured_step)
    real_share_ = static_cast<double>(*measured_step) / static_cast<double>(busy);
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
}

std::uint32_t Bounds::place_of(EventId event) const {
  if (!event.valid()) return kNone;
  const auto at = std::lower_bound(by_event_.begin(), by_event_.end(), event.value,
                                   [&](std::uint32_t i, std::uint32_t e) { return recorded_[i].event < e; });
  return at != by_event_.end() && recorded_[*at].event == event.value ? *at : kNone;
}

Ns Bounds::busy_time(const std::vector<bool>& counts) const {
  std::vector<std::pair<Ns, Ns>> spans;
  spans.reserve(recorded_.size());
  for (std::size_t i = 0; i < recorded_.size(); ++i) {
    if (counts[i]) spans.emplace_back(recorded_[i].begin, recorded_[i].begin + recorded_[i].busy);
  }
  return graph::covered_time(spans);
}

Bound Bounds::of(const Model& changed, double real) const {
  Bound longest;
  for (std::size_t s = 0; s < of_ranks_.size(); ++s) {
    const Bound one = of_ranks_[s].of(*changed.job->ranks[s], real);
    if (one.step > longest.step) longest = one;
  }
  if (!of_ranks_.empty()) return longest;
  const graph::Graph& g = changed.graph;
  std::vector<bool> left_alone(recorded_.size(), false);
  std::vector<std::uint32_t> other;  // tasks that are shorter than in the trace, or were not in it
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!is_own_work(g, t)) continue;
    const std::uint32_t place = place_of(g.event[t]);
    if (place != kNone && g.cost[t] >= recorded_[place].cost) {
      left_alone[place] = true;
    } else {
      other.push_back(t);
    }
  }
  bool touches_kernels = false;
  for (std::size_t i = 0; i < recorded_.size(); ++i) touches_kernels |= !left_alone[i] && recorded_[i].kernel;
  Bound streams = busiest_stream(changed, other);
  streams.step = static_cast<Ns>(std::min(1.0, real) * static_cast<double>(streams.step));
  const Ns covered = touches_kernels ? 0 : static_cast<Ns>(real_share_ * static_cast<double>(busy_time(left_alone)));
  return streams.step > covered ? streams : Bound{covered, "GPU busy time", false};
}

Bound Bounds::busiest_stream(const Model& changed, const std::vector<std::uint32_t>& other) const {
  const graph::Graph& g = changed.graph;
  // A graph that reaches into the next step holds some work twice.
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.role == graph::LaneRole::kPeriodMarks) return {};
  }
  struct Stream {
    double as_traced = 0, at_peak = 0, over_link = 0;
    [[nodiscard]] double time() const { return as_traced + at_peak + over_link; }
  };
  std::vector<Stream> lanes(g.lanes.size());
  std::vector<bool> is_other(g.size(), false);
  for (const std::uint32_t t : other) is_other[t] = true;
  // An operation runs several kernels. Those that are counted as traced do a part of its work; its floor less their time is divided among the rest.
  struct Row {
    double traced = 0, other = 0;
  };
  std::vector<Row> rows(changed.works.size());
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (const std::uint32_t row = changed.works.row_of(t); row != kNone && is_own_work(g, t))
      (is_other[t] ? rows[row].other : rows[row].traced) += static_cast<double>(g.cost[t]);
  }
  const bool given = times_are_given(changed);
  const bool reads_weights = streams_weights(all_weights(changed.works), changed.device);
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    // Collectives wait for others, who may come earlier.
    if (!is_own_work(g, t) || g.kind[t] == graph::TaskKind::kCollective) continue;
    Stream& lane = lanes[g.lane[t]];
    if (!is_other[t] || given) {
      lane.as_traced += static_cast<double>(g.cost[t]);
      continue;
    }
    const std::uint32_t row = changed.works.row_of(t);
    if (row == kNone || !(rows[row].other > 0)) continue;
    const work::Work& w = changed.works[row];
    const auto faster = faster_than_described_.find(w.op_event);
    const double share = faster == faster_than_described_.end() ? 1 : faster->second;
    const double whole = std::max(0.0, floor_ns(w, changed.device, reads_weights) * share - rows[row].traced);
    const double floor = whole * static_cast<double>(g.cost[t]) / rows[row].other;
    (is_host_copy(w) ? lane.over_link : lane.at_peak) += floor;
  }
  const auto most = std::max_element(lanes.begin(), lanes.end(),
                                     [](const Stream& a, const Stream& b) { return a.time() < b.time(); });
  if (most == lanes.end()) return {};
  const bool traced = most->as_traced >= std::max(most->at_peak, most->over_link);
  return {static_cast<Ns>(most->time()),
          traced                             ? "GPU busy time"
          : most->at_peak >= most->over_link ? "roofline"
                                             : "PCIe",
          false};
}

}  // namespace foretrace::whatif
