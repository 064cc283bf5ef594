#pragma once
// How steps follow each other on the GPU. Where nothing waits for the GPU at the end of a step, its work runs during the next
// ranges, and a range only tells how fast the CPU put work into the queue. The step's length is then the distance of the
// same work in two steps: from the last end on the busiest stream to the last end one step later.

#include <vector>

#include "foretrace/graph/build.hpp"
#include "foretrace/trace/steps.hpp"
#include "graph/trace_index.hpp"

namespace foretrace::graph {

std::vector<StepPace> find_paces(const TraceIndex& index, const trace::Steps& steps);

}  // namespace foretrace::graph
