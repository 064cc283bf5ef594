#pragma once
// When the nodes of a Chakra trace run, where the file does not record it. The reference converter and generators write a node's duration
// and dependencies; ASTRA-sim computes the schedule from them, and so does this file.

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include "foretrace/base/types.hpp"

namespace foretrace::trace {

struct ScheduledNode {
  std::uint32_t lane = 0;
  Ns duration = 0;
  std::vector<std::int64_t> data_deps = {};  ///< ids of other nodes
  Ns start = 0;                              ///< the result
};

/// Sets the start of every node: when all it depends on has ended and its lane is free; nodes that become ready together run in the
/// order of the file. `place` finds a node by its id. Nodes whose dependencies form a cycle follow at the end of their lane; their
/// number is returned.
std::size_t schedule(std::vector<ScheduledNode>& nodes, const std::unordered_map<std::int64_t, std::uint32_t>& place);

}  // namespace foretrace::trace
