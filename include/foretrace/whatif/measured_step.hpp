#pragma once
// Which measured times of a step can be true: what a user, a program or the recorder says a step takes without the profiler
// is held against the step's own trace before anything is calibrated on it.
//
//   Result<Ns> step = plausible_step(graph, 0.0716);
//   step.error();     // "a step of 0.0716 ms is impossible: the GPU alone works 68.5 ms in it"; hint: "seconds? …"

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"

namespace foretrace::whatif {

struct PlausibleRange {
  Ns least = 0;  ///< the GPU's busy time, less what its clocks vary by
  Ns most = 0;   ///< the step as traced, or its period where that is longer, and what steps vary by
  Ns gpu_busy = 0, traced = 0;
};
PlausibleRange plausible_range(const graph::Graph& graph);

/// `ms` in nanoseconds, or why no step of this graph can take that long (kUsage, with the likely slip as a hint).
Result<Ns> plausible_step(const graph::Graph& graph, double ms);

}  // namespace foretrace::whatif
