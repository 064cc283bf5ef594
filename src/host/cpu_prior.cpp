#include "host/cpu_prior.hpp"

#include <algorithm>
#include <cmath>

#include "foretrace/host/measured_step.hpp"
#include "trace/cuda_recording.hpp"

namespace foretrace::host {

namespace {

// What a phase may keep of its traced time; anything else is not the same phase of the same step. 91 phases of steps measured both ways
// (tools/fit_host.py) kept 0.30 to 1.05 of it.
constexpr double kLeastKept = 0.1, kMostKept = 1.25;
// A launch waits for room when about a thousand are pending. A GPU further behind than this may have that many.
constexpr double kFarBehindMs = 0.5;
constexpr std::size_t kPendingLaunches = 900;

// Launches of a step until each phase ends, in the order phases run.
std::array<std::size_t, kCpuPhases> launches_until(const graph::Graph& g) {
  std::array<std::size_t, kCpuPhases> count{};
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || !g.launch[t].valid()) continue;
    ++count[static_cast<std::size_t>(cpu_phase(g, g.launch[t].index()))];
  }
  for (std::size_t p = 1; p < kCpuPhases; ++p) count[p] += count[p - 1];
  return count;
}

// Of each phase's traced CPU time what the trace alone would leave.
std::array<double, kCpuPhases> left_by_trace(const graph::Graph& g, const CpuPrior& prior) {
  const graph::Graph without = apply(g, prior_factors(g, prior), prior);
  std::array<Ns, kCpuPhases> traced{}, left{};
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) continue;
    const auto p = static_cast<std::size_t>(cpu_phase(g, t));
    traced[p] += g.cost[t];
    left[p] += without.cost[t];
  }
  std::array<double, kCpuPhases> share{};
  for (std::size_t p = 0; p < kCpuPhases; ++p)
    share[p] = traced[p] > 0 ? static_cast<double>(left[p]) / static_cast<double>(traced[p]) : 0;
  return share;
}

// How far a phase's own time is believed beside what the trace says: both are off, one by the host's moment, the other by what it
// does not see. (What it does not see is its error less the moments' that it was judged by.)
double weight_of_timed(const HostCosts& host, std::size_t p) {
  const double moment = host.moment * host.moment;
  const double unseen = std::max(0.0, host.sigma * host.sigma + host.sigma_phase[p] * host.sigma_phase[p] - moment / 2);
  return moment > 0 ? unseen / (unseen + moment) : 1.0;
}

}  // namespace

CpuPrior cpu_prior(const trace::Trace& trace, const graph::Graph& graph, const std::optional<HostCosts>& host) {
  CpuPrior prior;
  if (host) prior.host = *host;
  const bool injected = !trace.metadata_value(trace::kCudaRecordingKey).empty();
  // NVTX ranges cost more than the events of PyTorch's own profiler, and so do calls that the injection library listens to.
  if (injected || trace.format == "nsight") prior.host.event_op_us = prior.host.event_nvtx_us;
  if (injected) prior.host.event_call_us = prior.host.event_injected_call_us;
  const RecordedCpu recorded = recorded_cpu(trace);
  const std::array<std::size_t, kCpuPhases> launches = launches_until(graph);
  const std::array<double, kCpuPhases> by_trace = left_by_trace(graph, prior);
  double behind_before =
      0;  // at the end of the phase before: a queue that is full when a phase begins holds it up, too
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    const RecordedCpu::PhaseTimes& times = recorded.phases[p];
    const double behind = times.behind_ms.value_or(0);
    const bool held_up = std::max(behind, behind_before) > kFarBehindMs && launches[p] > kPendingLaunches;
    behind_before = behind;
    if (held_up || !times.ms || !times.traced_ms || !(*times.traced_ms > 0)) continue;
    const double kept = *times.ms / *times.traced_ms;
    if (kept < kLeastKept || kept > kMostKept || by_trace[p] <= 0) continue;
    const double weight = weight_of_timed(prior.host, p);
    prior.left[p] = std::pow(kept, weight) * std::pow(by_trace[p], 1 - weight);
    prior.sigma_left = std::max(prior.sigma_left, prior.host.moment * std::sqrt(weight));
  }
  if (!host && recorded.probe_view_us && *recorded.probe_view_us > 0) {
    // One look at a host that may change its speed the next second: as good as the trace's own, within a guard against damaged figures.
    const double speed = std::clamp(*recorded.probe_view_us / prior.host.probe_view_us, 0.3, 10.0);
    prior.host.speed = step_speed(speed, prior.host);
  }
  return prior;
}

}  // namespace foretrace::host
