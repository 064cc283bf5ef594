#pragma once
// Which part of the CPU time in a trace is due to the profiler. The rest of a task belongs to the program (a sleep, reading data)
// and keeps its time.

#include <array>
#include <vector>

#include "foretrace/host/unprofiled.hpp"

namespace foretrace::host {

/// A task is never only its own recording. No phase of a measured step kept less than this of its traced time.
inline constexpr double kMinRemaining = 0.2;
/// A stretch between two events of a CPU holds a handful of events' worth of profiling. A longer one is the program's own work.
inline constexpr Ns kLongestStretch = 200'000;

/// By task, in ns.
struct CpuParts {
  std::vector<Ns> scalable;   ///< the part that follows the profiler and the cost of launches
  std::vector<Ns> recording;  ///< of that, the time it took to record events
};

/// `speed`: of each phase as traced; 0 leaves the recording in.
CpuParts cpu_parts(const graph::Graph& graph, const HostCosts& host, const std::array<double, kCpuPhases>& speed);

}  // namespace foretrace::host
