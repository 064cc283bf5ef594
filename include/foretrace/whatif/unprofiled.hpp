#pragma once
// The step as it runs without the profiler. A profiler adds little to the GPU's time and up to 115 % to the CPU's, and the
// host's own speed varies between runs; so a trace's CPU times are a poor guide to the real step, and its launch counts a
// better one.
//
// Prior: the CPU time of each phase lies between what its launches usually cost and the usual part of what the trace shows
// (CpuPrior): the first knows nothing of this host and of operations that launch nothing, the second holds the profiler's
// own cost. It is never more than what the trace shows.
// Calibration: the measured step moves the prior as little as it requires; directions it does not determine (a GPU-bound
// step says nothing about the CPU) keep their width, and the band carries it.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"

namespace foretrace::whatif {

/// Phases of CPU time that are scaled together.
enum class CpuPhase : std::uint8_t { kForward, kBackward, kOptimizer };
inline constexpr std::size_t kCpuPhases = 3;

/// What a launch costs the CPU without a profiler, and how far that is to be trusted. Fitted on H200 steps of four models
/// with PyTorch 2.11 on one host and checked on six others (docs/accuracy.md): mean error of the step 8-10 % where the CPU
/// is the bottleneck, 0.6 % where the GPU is.
struct CpuPrior {
  std::array<Ns, kCpuPhases> per_launch = {28'000, 28'000, 18'000};
  std::size_t usual_launches = 8;  ///< of one operation; what it launches beyond costs a bare call:
  double repeated_launch = 0.25;   ///< of per_launch
  /// Of a phase's traced CPU time, what is left without the profiler, and that estimate's weight against the launches'
  /// (in logarithms). 0.6 is what CPU-bound rows of four models showed; with the weight, steps of 24 models on four hosts that
  /// the CPU bounds lie 1.3 % beside their span on average (launches alone 1.9 %), those of 13 others 12 % (18 %).
  double traced_share = 0.6;
  double traced_weight = 2.0 / 3;
  double sigma_common = 0.09;  ///< of log CPU time, shared by all phases
  std::array<double, kCpuPhases> sigma_phase = {0.06, 0.06, 0.15};
  double sigma_gpu = 0.0094;       ///< of log GPU time between runs
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
  double least_seen =
      0.2;  ///< of a phase: the least that was left of the CPU time of one with a range around each layer
  std::size_t fewest_launches = 20;  ///< phases with fewer keep their traced time
};

/// How a graph's costs change when the profiler goes: one factor per phase and one for the GPU.
struct CpuFactors {
  std::array<double, kCpuPhases> phase = {1, 1, 1};
  double gpu = 1;
};

struct Unprofiled {
  CpuFactors factors;
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

/// Factors of the prior alone.
CpuFactors prior_factors(const graph::Graph& graph, const CpuPrior& prior);

/// The step without the profiler. `measured`: the real step's time where known.
Unprofiled unprofiled(const graph::Graph& graph, std::optional<Ns> measured, const CpuPrior& prior = {});

}  // namespace foretrace::whatif
