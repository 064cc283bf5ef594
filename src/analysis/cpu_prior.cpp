#include "analysis/cpu_prior.hpp"

#include <algorithm>
#include <cmath>

#include "foretrace/analysis/recorder.hpp"

namespace foretrace::analysis {

using whatif::kCpuPhases;

namespace {

// What a phase may keep of its traced time; anything else is not the same phase of the same step.
constexpr double kLeastKept = 0.1, kMostKept = 1.25;
// A launch waits for room when about a thousand are pending. A GPU further behind than this may have that many.
constexpr double kFarBehindMs = 0.5;
constexpr std::size_t kPendingLaunches = 900;

// Launches of a step until each phase ends, in the order phases run.
std::array<std::size_t, kCpuPhases> launches_until(const graph::Graph& g) {
  std::array<std::size_t, kCpuPhases> count{};
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || !g.launch[t].valid()) continue;
    ++count[static_cast<std::size_t>(whatif::cpu_phase(g, g.launch[t].index()))];
  }
  for (std::size_t p = 1; p < kCpuPhases; ++p) count[p] += count[p - 1];
  return count;
}

}  // namespace

whatif::CpuPrior cpu_prior(const trace::Trace& trace, const graph::Graph& graph,
                           const std::optional<whatif::HostCosts>& host) {
  whatif::CpuPrior prior;
  if (host) prior.host = *host;
  const RecordedCpu recorded = recorded_cpu(trace);
  const std::array<std::size_t, kCpuPhases> launches = launches_until(graph);
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    const RecordedCpu::PhaseTimes& times = recorded.phases[p];
    if (!times.ms || !times.traced_ms || !(*times.traced_ms > 0)) continue;
    const bool held_up = times.behind_ms.value_or(0) > kFarBehindMs && launches[p] > kPendingLaunches;
    const double kept = *times.ms / *times.traced_ms;
    if (!held_up && kept >= kLeastKept && kept <= kMostKept) prior.left[p] = kept;
  }
  if (!host && recorded.probe_view_us && *recorded.probe_view_us > 0) {
    // One look at a host that may change its speed the next second: as good as the trace's own.
    const double speed = std::clamp(*recorded.probe_view_us / prior.host.probe_view_us, 0.3, 10.0);
    prior.host.speed = whatif::step_speed(speed, prior.host);
  }
  return prior;
}

}  // namespace foretrace::analysis
