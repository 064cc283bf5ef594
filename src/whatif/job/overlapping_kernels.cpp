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

// By task, the part of a kernel's time in which the rank communicates: in the last of several steps in a row, which has settled.
std::vector<double> overlapped_shares(const graph::Graph& g, const simulate::SteadyRuns::Run& run) {
  const auto place = [&](std::uint32_t t) {
    const graph::GraphLane& lane = g.lanes[g.lane[t]];
    return lane.begin * run.copies + (run.copies - 1) * (lane.end - lane.begin) + (t - lane.begin);
  };
  const auto when = [&](std::uint32_t t) { return Stretch{run.timeline.start[place(t)], run.timeline.end[place(t)]}; };
  std::vector<Stretch> communicates;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == graph::TaskKind::kCollective) communicates.push_back(when(t));
  }
  communicates = united(std::move(communicates));
  std::vector<double> parts(g.size(), 0);
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    const auto [begin, end] = when(t);
    if (!computes(g, t) || end <= begin) continue;
    parts[t] = static_cast<double>(common(communicates, begin, end)) / static_cast<double>(end - begin);
  }
  return parts;
}

int recorded_channels(const Model& m, std::uint32_t task) {
  const EventId event = m.graph.event[task];
  const trace::KernelLaunch* launch = m.trace != nullptr && event.valid() ? m.trace->launch(event.index()) : nullptr;
  return launch == nullptr ? 0 : static_cast<int>(std::min<std::int64_t>(launch->grid[0], m.device.sm_count / 2));
}

}  // namespace

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
