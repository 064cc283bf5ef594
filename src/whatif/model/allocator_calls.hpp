#pragma once
// Calls that allocate driver memory and free it again in every step. They come from how the program uses memory, not from how it
// launches work: compiling or capturing the step does not remove them.

#include "foretrace/graph/graph.hpp"
#include "graph/call_roles.hpp"

namespace foretrace::whatif {

inline bool is_allocator_call(const graph::Graph& g, std::size_t t) {
  if (g.notes.allocator <= 0 || g.kind[t] != graph::TaskKind::kCall) return false;
  const graph::CallKind kind = graph::kind_of_call(g.task_name(t));
  return kind.allocates || kind.frees;
}

}  // namespace foretrace::whatif
