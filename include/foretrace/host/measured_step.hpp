#pragma once
// The step without the profiler as somebody measured it: a user, a program or the recorder. What they say is held against the
// step's own trace before anything is calibrated on it.
//
//   Result<Ns> step = plausible_step(graph, replayed, 0.0716);
//   step.error();     // "a step of 0.0716 ms is impossible: the GPU alone works 68.5 ms in it"; hint: "seconds? …"

#include <optional>
#include <string>
#include <utility>

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

}  // namespace foretrace::host
