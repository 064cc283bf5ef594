#pragma once
// The step without the profiler as it was measured, by the user or by the recorder. A measurement is checked against the trace
// before anything is calibrated on it.
//
//   Result<Ns> step = plausible_step(graph, replayed, 0.0716);
//   step.error();     // "a step of 0.0716 ms is impossible: its GPU work alone takes 68.5 ms"; hint: "seconds? …"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::host {

/// Steps and phases may vary by this factor between two runs. A choice: of 31 models on an H200 measured with and without the
/// profiler, the real step took 1.004 to 11.5 times the GPU's busy time and 0.45 to 1.018 times the traced step.
inline constexpr double kVariation = 1.2;

/// Which times of a step are plausible.
struct PlausibleRange {
  Ns least = 0;  ///< the GPU's busy time, less the variation of its clocks
  Ns most = 0;   ///< the step as traced, or its period where that is longer, plus the variation of steps
  Ns gpu_busy = 0, traced = 0;
};
/// `replayed`: the step when the unchanged graph is replayed (simulate::steady_state).
PlausibleRange plausible_range(const graph::Graph& graph, Ns replayed);

/// `ms` in nanoseconds, or why no step of this graph takes that long (kUsage; the hint names the likely mistake).
Result<Ns> plausible_step(const graph::Graph& graph, Ns replayed, double ms);

/// What the user measured in addition to the trace.
struct UserMeasurements {
  // NOLINTBEGIN(google-explicit-constructor): most callers have a time or nothing
  UserMeasurements(std::optional<double> ms = std::nullopt, std::optional<HostCosts> costs = std::nullopt)
      : measured_ms(ms), host(std::move(costs)) {}
  UserMeasurements(std::nullopt_t /*nothing*/) {}
  UserMeasurements(double ms) : measured_ms(ms) {}
  // NOLINTEND(google-explicit-constructor)
  std::optional<double> measured_ms;  ///< of a step without the profiler
  std::optional<HostCosts> host;      ///< what `foretrace calibrate` measured there
};

struct Measured {
  std::optional<Ns> step;
  CpuPrior prior;         ///< what is known about the CPU: from the user, else from the recorder, else the default host
  bool recorded = false;  ///< `step` is the recorder's
  std::string refused;    ///< why the recorder's figure is not used; empty when it is used, or there is none
};
/// The user's measurement, else the one the recorder stored in the trace. An implausible step is an error when the user gave it;
/// a stored one is ignored, and `refused` says why.
Result<Measured> measured_step(const trace::Trace& trace, const graph::Graph& graph, Ns replayed,
                               const UserMeasurements& user);

// What foretrace's recorder stored in a trace. Whether the figures are plausible is decided elsewhere (measured_step.hpp).

/// The top-level key of a trace that holds the recorder's figures.
inline constexpr std::string_view kRecorderKey = "foretrace";

/// Figures are missing where the recorder did not store them or they are not numbers.
struct RecorderFigures {
  std::optional<double> measured_ms;       ///< the step without the profiler
  std::vector<double> step_ms;             ///< every step timed without the profiler
  std::optional<std::int64_t> peak_bytes;  ///< the allocator's peak in those steps

  struct PhaseTimes {
    std::optional<double> ms;         ///< on the host, without the profiler
    std::optional<double> traced_ms;  ///< the same in the traced steps
    std::optional<double> behind_ms;  ///< how long the GPU still worked when the phase ended, without the profiler
  };
  std::array<PhaseTimes, 3> phases;     ///< forward (until backward begins), backward, update
  std::optional<double> probe_view_us;  ///< an operation that launches nothing, without the profiler
};
RecorderFigures recorder_figures(const trace::Trace& trace);

/// All of them as a JSON object; empty when the recorder did not make the trace.
std::string recorder_json(const trace::Trace& trace);

}  // namespace foretrace::host
