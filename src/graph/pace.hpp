#pragma once
// How steps follow each other. Where nothing waits for the GPU at the end of a step, its work runs during the next ranges, and
// a range only shows how fast the CPU put work into the queue. The step's length is then the distance of the same work in
// two steps, on the side that sets the pace: where the busiest stream ran dry and waited for launches, the CPU's, from range
// to range; else the GPU's, from end to end on that stream (unless the CPU works longer still: in the long run it sets the pace).

#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/trace.hpp"
#include "graph/trace_index.hpp"

namespace foretrace::graph {

std::vector<StepPace> find_paces(const TraceIndex& index, const trace::Steps& steps);

/// How long these steps took.
StepSpread spread_of(const trace::Steps& steps, const std::vector<std::size_t>& which);

}  // namespace foretrace::graph
