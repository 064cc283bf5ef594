#pragma once
// The step as it runs without the profiler. A profiler adds little to the GPU's time and up to 200 % to the CPU's: every event
// it records takes time, and the rest runs slower beside it. The host's own speed varies as well, between runs and within one.
//
// Prior, for each phase: the trace shows the speed it was made at (short calls that every step has take longer on a slow
// host), the events the profiler recorded cost what they cost at that speed and come off where they were recorded, and of
// what is left a known part is the step's own, at the speed hosts usually have (HostCosts, fitted by tools/fit_host.py). Where
// the recorder timed the phases without the profiler, that decides instead.
// Calibration: the measured step moves the prior as little as it requires; directions it does not determine (a GPU-bound
// step says nothing about the CPU) keep their width, and the band carries it.

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
  /// Of a phase's traced CPU time what was left without the profiler, where somebody timed both.
  std::array<std::optional<double>, kCpuPhases> left = {};
  double sigma_left = 0;           ///< of log time of such a phase; told with them
  Ns longest_hand_over = 300'000;  ///< to another thread, without a profiler
  Ns longest_join = 30'000;
  Ns longest_sync_return = 15'000;
  /// No single thing a profiler does takes longer: a hand-over, join, return or stretch that does waits or works for the
  /// program (17 steps of 11 models on H200: hand-overs up to 0.97 ms, stretches up to 1.96).
  Ns longest_stall = 2'000'000;
  /// A stretch between two events of a CPU holds a handful of events' worth of profiling, and so does the time between two
  /// launches. What is longer is the program's own (a sleep, reading data, an allocation, waiting for a lock) and keeps its
  /// time: of stretches above `longest_stretch` all beyond `long_stretches` of the thread's shorter ones, and of the time
  /// between two launches what is above `longest_between_launches`. (Those 11 models: 0.5 to 6 %, and at most 4.4 ms once in
  /// a step, else 2.0.)
  Ns longest_stretch = 200'000;
  double long_stretches = 0.06;
  Ns longest_between_launches = 2'000'000;
  double smallest_share = 0.2;       ///< of a phase's CPU time: the least that was left of it on any measured step
  std::size_t fewest_launches = 20;  ///< phases with fewer do not tell what one costs
};

/// How a graph's costs change when the profiler goes. The events it recorded come off at `profiler` times what HostCosts says
/// of each (0: they stay), then the rest is multiplied.
struct CpuFactors {
  std::array<double, kCpuPhases> phase = {1, 1, 1};
  double gpu = 1;
  std::array<double, kCpuPhases> profiler = {0, 0, 0};
};

struct Unprofiled {
  CpuFactors factors;
  std::array<double, kCpuPhases> speed = {1, 1,
                                          1};  ///< of the step's CPU, as HostCosts means it: what inserted work costs
  Ns step = 0;
  Ns low = 0, high = 0;  ///< 10th and 90th percentile
  bool calibrated = false;
  std::array<double, kCpuPhases + 1> sigma = {};  ///< what stays free of log (forward, backward, optimizer, gpu)
  /// Log of how much longer a phase's CPU tasks take together when what was taken off as the profiler's is the program's own.
  std::array<double, kCpuPhases> slower = {};
  std::string origin;  ///< "prior", "measured step", "recorder"
};

/// The phase a CPU task is scaled with.
CpuPhase cpu_phase(const graph::Graph& graph, std::size_t task);

/// The graph with factors applied: CPU costs, hand-over, join and return lags, GPU costs.
graph::Graph apply(const graph::Graph& graph, const CpuFactors& factors, const CpuPrior& prior);

/// The speed each phase was traced at, as its short calls show it; of a phase that shows none, that of the others.
std::array<double, kCpuPhases> traced_speeds(const graph::Graph& graph, const HostCosts& host);

/// The speed of a step whose trace shows `traced`.
double step_speed(double traced, const HostCosts& host);

/// Factors of the prior alone.
CpuFactors prior_factors(const graph::Graph& graph, const CpuPrior& prior);

/// The step without the profiler. `measured`: the real step's time where known.
Unprofiled unprofiled(const graph::Graph& graph, std::optional<Ns> measured, const CpuPrior& prior = {});

}  // namespace foretrace::host
