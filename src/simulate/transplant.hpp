#pragma once
// The costs of one step in the graph of another: does a graph give the time of a step it was not built from? Structure
// and distances are the graph's own; costs come from the other step, task by task, matched by their order among tasks of
// the same kind and name on the same lane.
//
//   Transplant t = transplant(first, second);
//   steady_state(first, {t.cost, nullptr}).timeline.step        // to be compared with second.traced

#include <cstdint>
#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::simulate {

struct Transplant {
  std::vector<Ns> cost;              ///< per task of the graph; its own where nothing matches
  std::vector<std::uint32_t> match;  ///< per task of the graph: the task of the other; kNone when none
  std::size_t unmatched = 0;         ///< tasks with a cost that found no partner, of either graph
};

Transplant transplant(const graph::Graph& graph, const graph::Graph& other);

}  // namespace foretrace::simulate
