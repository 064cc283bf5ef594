#pragma once
// Where a step begins in its trace: measured times of a graph are relative to it.

#include <optional>

#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

/// When the step of a graph begins in its trace, by any call of the main thread; nothing where it has none. The graph's events must be the
/// trace's.
inline std::optional<Ns> step_begin(const trace::Trace& trace, const Graph& g) {
  const GraphLane& main = g.lanes[g.main_lane];
  for (std::uint32_t t = main.begin; t < main.end; ++t) {
    if (g.event[t].valid() && g.kind[t] == TaskKind::kCall) {
      return trace.events.start[g.event[t].index()] - g.measured[t];
    }
  }
  return std::nullopt;
}

}  // namespace foretrace::graph
