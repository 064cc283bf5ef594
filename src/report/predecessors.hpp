#pragma once
// What each task waits for. Graphs hold dependencies by their source; files for others list them by their target.

#include <cstdint>
#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::report {

struct Predecessor {
  std::uint32_t task;
  graph::DependencyKind kind;
};

/// Of each task: the one before it on its lane first, then the others in the order of their ids. Without what only orders (a GPU
/// that was full) and what refers to another copy of the step.
std::vector<std::vector<Predecessor>> predecessors(const graph::Graph& graph);

}  // namespace foretrace::report
