#pragma once
// What of the CPU's time in a trace is the profiler's: of each task the part that follows launches and the profiler at all, and of that
// what recording its events took. The rest of a task is the program's own (a sleep, reading data) and keeps its time.

#include <array>
#include <vector>

#include "foretrace/host/unprofiled.hpp"

namespace foretrace::host {

/// What a profiler's events leave of a task at least: a task is never only its own recording. A choice: no phase of a measured step
/// kept less than this of its traced time (CpuPrior::smallest_share).
inline constexpr double kLeastLeft = 0.2;

/// By task, in ns.
struct CpuParts {
  std::vector<Ns> ordinary, recording;
};

/// `speed`: of each phase as traced; 0 leaves the recording in.
CpuParts cpu_parts(const graph::Graph& graph, const CpuPrior& prior, const std::array<double, kCpuPhases>& speed);

}  // namespace foretrace::host
