#pragma once
// Whether a step runs anything on a GPU. Where it does not, there is nothing to predict, and every report says so in the
// same words.

#include <algorithm>
#include <string_view>

#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

inline constexpr std::string_view kNoGpuWork = "no GPU work in this step";

[[nodiscard]] inline bool has_gpu_work(const Graph& graph) {
  return std::any_of(graph.kind.begin(), graph.kind.end(), [](TaskKind kind) { return is_gpu(kind); });
}

}  // namespace foretrace::graph
