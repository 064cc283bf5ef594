#pragma once
// A changed graph that contradicts itself. Some reasons to wait are inferred from measured times ("this kernel found the GPU full
// with that one"); when a change makes the CPU wait where it did not, such a reason may point backwards. Then the
// inference is dropped, not the change.

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

/// Proves the graph sound; where it is not, without the soft dependencies among tasks that wait for themselves (counted in
/// notes.dropped_soft). The others stay.
Status verify_or_relax(Graph& graph);

/// Whether a stream shows work in front of work that was launched before it, which no stream does: the trace contradicts itself.
/// Calls of several threads are compared by when they began.
bool runs_out_of_order(const Graph& graph);

}  // namespace foretrace::graph
