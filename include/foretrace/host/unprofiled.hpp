#pragma once
// The step as it runs without the profiler. A profiler adds little to the GPU's time and up to 200 % to the CPU's: every event
// it records takes time, and the rest runs slower beside it. The host's own speed varies as well, between runs and within one.
//
// The prior, for each phase: the trace shows the speed it was recorded at (short, common calls take longer on a slow host).
// Recording its events cost a known time at that speed, which is subtracted where they were recorded. A known share of the rest
// is the step's own, at the speed hosts usually have (HostCosts, fitted by tools/fit_host.py). Where the recorder timed the
// phases without the profiler, its times count as well.
// Calibration: a measured step moves the prior as little as possible. What it does not determine (a GPU-bound step says nothing
// about the CPU) stays as uncertain as before, and the band shows that.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/host/host_costs.hpp"
#include "foretrace/simulate/simulate.hpp"

namespace foretrace::host {

/// Phases of CPU time that are scaled together.
enum class CpuPhase : std::uint8_t { kForward, kBackward, kOptimizer };
inline constexpr std::size_t kCpuPhases = 3;

/// What is known about the CPU before the step is looked at.
struct CpuPrior {
  HostCosts host = HostCosts::built_in();
  /// The share of a phase's traced CPU time that it takes without the profiler, where the recorder timed both.
  std::array<std::optional<double>, kCpuPhases> timed_share = {};
  double timed_sigma = 0;  ///< standard deviation of log time of such a phase
};

/// How a graph's costs change without the profiler: recording is subtracted at `profiler` times the cost in HostCosts (0: not
/// at all), then the rest is multiplied.
struct CpuFactors {
  std::array<double, kCpuPhases> phase = {1, 1, 1};
  double gpu = 1;
  std::array<double, kCpuPhases> profiler = {0, 0, 0};
};

struct Unprofiled {
  CpuFactors factors;
  std::array<double, kCpuPhases> speed = {1, 1, 1};  ///< of the step's CPU (see HostCosts): for work that is inserted
  Ns step = 0;
  Ns low = 0, high = 0;  ///< 10th and 90th percentile
  bool calibrated = false;
  std::array<double, kCpuPhases + 1> sigma = {};  ///< of log time that remains: forward, backward, optimizer, GPU
  /// Log of how much longer a phase's CPU tasks take if what was subtracted as the profiler's is the program's own.
  std::array<double, kCpuPhases> slower = {};
  std::string origin;  ///< "prior", "measured step", "recorder"
};

/// The phase a CPU task is scaled with.
CpuPhase cpu_phase(const graph::Graph& graph, std::size_t task);

/// The graph with factors applied: CPU costs, hand-over, join and return lags, GPU costs.
graph::Graph apply(const graph::Graph& graph, const CpuFactors& factors, const CpuPrior& prior);

/// The speed each phase was traced at, read from its short calls; a phase without such calls has the speed of the others.
std::array<double, kCpuPhases> traced_speeds(const graph::Graph& graph, const HostCosts& host);

/// The speed of a step whose trace shows `traced`.
double step_speed(double traced, const HostCosts& host);

/// Factors of the prior alone.
CpuFactors prior_factors(const graph::Graph& graph, const CpuPrior& prior);

/// The step without the profiler. `measured`: the real step's time where known.
Unprofiled unprofiled(const graph::Graph& graph, std::optional<Ns> measured, const CpuPrior& prior = {});

}  // namespace foretrace::host
