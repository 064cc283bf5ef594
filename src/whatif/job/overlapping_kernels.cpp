#include "whatif/job/overlapping_kernels.hpp"

#include <algorithm>
#include <utility>

#include "hardware/figures.hpp"
#include "whatif/model/simulate_model.hpp"

namespace foretrace::whatif {

namespace {

using Stretch = std::pair<Ns, Ns>;

// Sorted and apart.
std::vector<Stretch> united(std::vector<Stretch> stretches) {
  std::sort(stretches.begin(), stretches.end());
  std::vector<Stretch> out;
  for (const Stretch& s : stretches) {
    if (out.empty() || s.first > out.back().second) {
      out.push_back(s);
    } else {
      out.back().second = std::max(out.back().second, s.second);
    }
  }
  return out;
}

Ns common(const std::vector<Stretch>& stretches, Ns begin, Ns end) {
  auto s = std::lower_bound(stretches.begin(), stretches.end(), begin,
                            [](const Stretch& stretch, Ns at) { return stretch.second <= at; });
  Ns sum = 0;
  for (; s != stretches.end() && s->first < end; ++s) sum += std::min(s->second, end) - std::max(s->first, begin);
  return sum;
}

bool computes(const graph::Graph& g, std::uint32_t t) { return g.kind[t] == graph::TaskKind::kKernel && g.cost[t] > 0; }

/// When the tasks of a model run: in the last of several steps in a row, which has settled.
class Times {
 public:
  Times(const graph::Graph& g, const simulate::SteadyRuns::Run& run) : g_(g), run_(run) {}
  [[nodiscard]] Stretch of(std::uint32_t t) const {
    const graph::GraphLane& lane = g_.lanes[g_.lane[t]];
    const std::size_t at = lane.begin * run_.copies + (run_.copies - 1) * (lane.end - lane.begin) + (t - lane.begin);
    return {run_.timeline.start[at], run_.timeline.end[at]};
  }
  // Of all tasks of a sort.
  template <class Sort>
  [[nodiscard]] std::vector<Stretch> all(const Sort& sort) const {
    std::vector<Stretch> out;
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (sort(t)) out.push_back(of(t));
    }
    return united(std::move(out));
  }

 private:
  const graph::Graph& g_;
  const simulate::SteadyRuns::Run& run_;
};

// By task, the part of a kernel's time in which the rank communicates.
std::vector<double> overlapped_shares(const graph::Graph& g, const simulate::SteadyRuns::Run& run) {
  const Times times(g, run);
  const std::vector<Stretch> communicates =
      times.all([&](std::uint32_t t) { return g.kind[t] == graph::TaskKind::kCollective; });
  std::vector<double> parts(g.size(), 0);
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    const auto [begin, end] = times.of(t);
    if (!computes(g, t) || end <= begin) continue;
    parts[t] = static_cast<double>(common(communicates, begin, end)) / static_cast<double>(end - begin);
  }
  return parts;
}

}  // namespace

int recorded_channels(const Model& m, std::uint32_t task) {
  const EventId event = m.graph.event[task];
  const trace::KernelLaunch* launch = m.trace != nullptr && event.valid() ? m.trace->launch(event.index()) : nullptr;
  return launch == nullptr ? 0 : static_cast<int>(std::min<std::int64_t>(launch->grid[0], m.device.sm_count / 2));
}

std::vector<Ns> exposed_communication(const Model& m) {
  const graph::Graph& g = m.graph;
  ModelRuns runs(m);
  const simulate::SteadyRuns::Run run = runs.run();
  const Times times(g, run);
  const std::vector<Stretch> kernels = times.all([&](std::uint32_t t) { return computes(g, t); });
  std::vector<Ns> exposed(g.size(), 0);
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] != graph::TaskKind::kCollective) continue;
    const auto [begin, end] = times.of(t);
    exposed[t] = end - begin - common(kernels, begin, end);
  }
  return exposed;
}

void slow_overlapping_kernels(const Model& m, Draft& draft, const std::vector<OtherTransfer>& collectives) {
  const graph::Graph& g = m.graph;
  const hardware::Figures& figures = hardware::measured_figures(m.device);
  Interference here{.kernels = figures.kernel_contention}, there = here;
  std::vector<Ns> cost(g.cost.begin(), g.cost.end());
  for (const OtherTransfer& c : collectives) {
    const int recorded = recorded_channels(m, c.task);
    here.sms = std::max(here.sms, recorded);
    there.sms = std::max(there.sms, c.channels > 0 ? std::min(c.channels, m.device.sm_count / 2) : recorded);
    cost[c.task] = c.becomes;
  }
  ModelRuns runs(m);
  const std::vector<double> before = overlapped_shares(g, runs.run()), after = overlapped_shares(g, runs.run(cost));
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (before[t] == 0 && after[t] == 0) continue;
    const double alone = 1 - before[t] * (1 - speed_during_collective(m, t, here));
    const double becomes = alone * (1 + after[t] * (1 / speed_during_collective(m, t, there) - 1));
    if (becomes != 1) draft.scale({t}, becomes);
  }
}

}  // namespace foretrace::whatif
