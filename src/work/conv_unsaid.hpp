#pragma once
// Convolutions of which only the tensors were recorded (NVTX ranges carry shapes and no other arguments).

#include <cstdint>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::work {

/// The stride that divides one size by the other, or the smallest by which a kernel of `reach` taps, padded by at most half of
/// them, makes `out` of `in`; 1 where none does.
std::int64_t stride_between(std::int64_t in, std::int64_t out, std::int64_t reach);

/// Forward convolutions take the sizes of their results from their gradients, whose operations name them: of the same input
/// and weight, the last gradient belongs to the first forward pass.
void take_sizes_from_gradients(Works& works, const trace::Trace& trace);

/// The order of images in memory, where no strides were recorded: that of most of the step's convolutions, by the names of their
/// kernels. One in NHWC that is not copied there and back was NHWC before.
void find_layout(Works& works, const trace::Trace& trace, const graph::Graph& graph);

}  // namespace foretrace::work
