#pragma once
// What is not steady about a step: start-up work of a first iteration, and an allocator that works in every step. The graph knows the
// times (src/graph/startup.hpp); here they become sentences and a decision, the same for every command.

#include <string>
#include <string_view>

#include "foretrace/graph/graph.hpp"

namespace foretrace::analysis {

/// What to record instead of a cold step, with torch.profiler.
inline constexpr std::string_view kRecordWarmSteps =
    "run a few steps first: schedule=torch.profiler.schedule(skip_first=10, wait=1, warmup=1, active=3), or `foretrace "
    "record`";
/// What to do about an allocator that works in every step.
inline constexpr std::string_view kKeepMemory =
    "call no torch.cuda.empty_cache() in the loop; set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True "
    "(PYTORCH_HIP_ALLOC_CONF on ROCm); where the GPU's memory is full, take a smaller batch";

/// The graph of a step. A cold step is as it would be once warm; nobody measured that, so its length is what its replay takes.
Result<graph::Graph> build_graph(const graph::GraphBuilder& builder, std::size_t step,
                                 const graph::BuildOptions& options = {});

/// Why nothing is predicted from a cold step; empty for every other step. `replayed`: what its graph takes.
std::string cold_refusal(const graph::Graph& graph, Ns replayed);

/// "515.2 ms of start-up work were taken out of the step (…)"; empty for a steady step.
std::string steadiness_text(const graph::Graph& graph);

/// "first launches of kernels 489.6 ms, loading and set-up 14.1 ms", longest first.
std::string parts_of(const graph::Startup& startup);

}  // namespace foretrace::analysis
