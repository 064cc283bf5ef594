#pragma once
// The step without the profiler as somebody measured it: a user, a program or the recorder. What they say is held against the
// step's own trace before anything is calibrated on it.
//
//   Result<Ns> step = plausible_step(graph, replayed, 0.0716);
//   step.error();     // "a step of 0.0716 ms is impossible: the GPU alone works 68.5 ms in it"; hint: "seconds? …"

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

/// Which times of a step can be true.
struct PlausibleRange {
  Ns least = 0;  ///< the GPU's busy time, less what its clocks vary by
  Ns most = 0;   ///< the step as traced, or its period where that is longer, and what steps vary by
  Ns gpu_busy = 0, traced = 0;
};
/// `replayed`: the step as the graph gives it unchanged (simulate::steady_state).
PlausibleRange plausible_range(const graph::Graph& graph, Ns replayed);

/// `ms` in nanoseconds, or why no step of this graph can take that long (kUsage, with the likely slip as a hint).
Result<Ns> plausible_step(const graph::Graph& graph, Ns replayed, double ms);

/// What the user says of the step and of the host beside the trace.
struct UserMeasurements {
  // NOLINTBEGIN(google-explicit-constructor): most say a time or nothing
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
  CpuPrior prior;         ///< what is known about the CPU: told, else recorded, else of the usual host
  bool recorded = false;  ///< `step` is the recorder's
  std::string refused;    ///< why the recorder's figure is not used; empty when it is, or there is none
};
/// As told, else as the recorder stored it in the trace. What cannot be true is an error when told; when stored, it is
/// left alone and said so.
Result<Measured> measured_step(const trace::Trace& trace, const graph::Graph& graph, Ns replayed,
                               const UserMeasurements& told);

// The figures our recorder stored in the trace it made. Whether they can be true is not looked at here (measured_step.hpp).

/// The top-level key our recorder stores its figures under.
inline constexpr std::string_view kRecorderKey = "foretrace";

/// The figures the recorder stored, as a JSON object; empty when it did not make the trace.
std::string recorder_figures(const trace::Trace& trace);

/// The step without the profiler in ms.
std::optional<double> recorded_ms(const trace::Trace& trace);
/// Every step it timed without the profiler, in ms; empty where it kept none.
std::vector<double> recorded_steps(const trace::Trace& trace);
/// The allocator's peak of those steps.
std::optional<std::int64_t> recorded_peak(const trace::Trace& trace);

/// What the recorder timed on the CPU; nothing where it did not, or the figure is no time.
struct RecordedCpu {
  struct PhaseTimes {
    std::optional<double> ms;         ///< of the host, without the profiler
    std::optional<double> traced_ms;  ///< the same in the traced steps
    std::optional<double> behind_ms;  ///< how long the GPU still worked when the phase ended, without the profiler
  };
  std::array<PhaseTimes, 3> phases;     ///< forward (until backward begins), backward, update
  std::optional<double> probe_view_us;  ///< an operation that launches nothing, without the profiler
};
RecordedCpu recorded_cpu(const trace::Trace& trace);

}  // namespace foretrace::host
