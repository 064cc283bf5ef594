// Combines what the recorder timed with what the trace shows. Neither is exact: a timed phase is one run of a host that varies, the
// trace's estimate has an error of its own. They are averaged in logarithms, weighted by their variances.

#include "host/cpu_prior.hpp"

#include <algorithm>
#include <cmath>

#include "foretrace/host/measured_step.hpp"
#include "hardware/figures.hpp"
#include "trace/cuda_recording.hpp"
#include "trace/latencies.hpp"

namespace foretrace::host {

namespace {

// A launch waits for room when CUDA's queue is full: 1024 launches, NVIDIA's own number.
constexpr std::size_t kQueueDepth = 1024;

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

// By phase, according to the trace alone: the share of the traced CPU time that remains, and of what remains, the share that loads data.
struct TracedShares {
  std::array<double, kCpuPhases> remaining = {}, loading = {};
};

TracedShares shares_by_trace(const graph::Graph& g, const CpuPrior& prior) {
  const graph::Graph without = apply(g, prior_factors(g, prior), prior);
  std::array<Ns, kCpuPhases> traced{}, left{}, loading{};
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) continue;
    const auto p = static_cast<std::size_t>(cpu_phase(g, t));
    traced[p] += g.cost[t];
    left[p] += without.cost[t];
    if (step_part(g, t) == kLoadingPart) loading[p] += without.cost[t];
  }
  TracedShares shares;
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    if (traced[p] > 0) shares.remaining[p] = static_cast<double>(left[p]) / static_cast<double>(traced[p]);
    if (left[p] > 0) shares.loading[p] = static_cast<double>(loading[p]) / static_cast<double>(left[p]);
  }
  return shares;
}

// The weight of a phase's own time relative to the trace's estimate. Both are off: the time by the host's variation from run to run,
// the estimate by what it does not see (its error, less the run-to-run variation of the times it was judged by; and how loading varies).
double weight_of_timed(const HostCosts& host, std::size_t p, double loading_share) {
  const double varies = host.uncertainty.run_to_run * host.uncertainty.run_to_run;
  const double of_launches = std::max(0.0, host.uncertainty.shared * host.uncertainty.shared +
                                               host.uncertainty.phase[p] * host.uncertainty.phase[p] - varies / 2);
  const double unseen =
      std::pow(1 - loading_share, 2) * of_launches + std::pow(loading_share * host.uncertainty.loading, 2);
  return varies > 0 ? unseen / (unseen + varies) : 1.0;
}

}  // namespace

CpuPrior cpu_prior(const trace::Trace& trace, const graph::Graph& graph, const std::optional<HostCosts>& host) {
  CpuPrior prior;
  if (host) prior.host = *host;
  prior.latencies = &hardware::latencies_of(trace);
  const bool injected = !trace.metadata_value(trace::kCudaRecordingKey).empty();
  // NVTX ranges cost more than the events of PyTorch's own profiler, and so do calls that the injection library listens to.
  if (injected || trace.format == "nsight") prior.host.profiler.op_us = prior.host.profiler.nvtx_us;
  if (injected) prior.host.profiler.call_us = prior.host.profiler.injected_call_us;
  const RecorderFigures recorded = recorder_figures(trace);
  const std::array<std::size_t, kCpuPhases> launches = launches_until(graph);
  const TracedShares by_trace = shares_by_trace(graph, prior);
  // A GPU with a full queue is behind by at least as many empty kernels.
  const double full_queue_ms = 1e-6 * static_cast<double>(prior.latencies->empty_kernel) * kQueueDepth;
  double behind_before = 0;  // a queue that is full when a phase begins holds it up, too
  for (std::size_t p = 0; p < kCpuPhases; ++p) {
    const RecorderFigures::PhaseTimes& times = recorded.phases[p];
    const double behind = times.behind_ms.value_or(0);
    const bool held_up = std::max(behind, behind_before) > full_queue_ms && launches[p] > kQueueDepth;
    behind_before = behind;
    // A phase that waited for room in the launch queue shows the GPU's time, not the CPU's.
    if (held_up || !times.ms || !times.traced_ms || !(*times.traced_ms > 0)) continue;
    const double kept = *times.ms / *times.traced_ms;
    // Without the profiler a phase takes no longer, except for variation and for loading: anything else is not the same phase.
    if (kept <= 0 || (kept > kVariation && by_trace.loading[p] == 0) || by_trace.remaining[p] <= 0) continue;
    const double weight = weight_of_timed(prior.host, p, by_trace.loading[p]);
    prior.timed_share[p] = std::pow(kept, weight) * std::pow(by_trace.remaining[p], 1 - weight);
    prior.timed_sigma = std::max(prior.timed_sigma, prior.host.uncertainty.run_to_run * std::sqrt(weight));
  }
  if (!host && recorded.probe_view_us && *recorded.probe_view_us > 0) {
    // One probe of a host that may change its speed the next second counts like the speed of a trace.
    prior.host.speed = step_speed(*recorded.probe_view_us / prior.host.reference.view_us, prior.host);
  }
  return prior;
}

}  // namespace foretrace::host
