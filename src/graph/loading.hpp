#pragma once
// Data loading in a graph: when a step waits for it, and the lane of the worker processes that do it.

#include <cstdint>
#include <string_view>

#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

/// Whether a step takes its time from loading, in which nothing else runs. Below this share other causes are named first.
constexpr bool is_loader_bound(Ns loading, Ns step) { return loading * 100 > step * 15; }

/// What views call the lane of role kLoaderWorkers: in the graph of a step that waits for its workers, and where a change adds them.
inline constexpr std::string_view kWorkersLaneName = "data-loader workers";
/// The lane of role kLoaderWorkers; kNone where the graph has none.
std::uint32_t workers_lane(const Graph& graph);

}  // namespace foretrace::graph
