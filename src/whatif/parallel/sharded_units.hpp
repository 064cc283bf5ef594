#pragma once
// Units of fully sharded data parallel: parameters that are gathered and freed together, and the GPU memory they need.

#include <vector>

#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

struct ShardedUnit {
  std::vector<std::uint32_t> gradients;  ///< indices into Gradients::list
  std::int64_t elements = 0;
  std::uint32_t last_gradient = 0;
  bool root = false;  ///< what no repeated block holds: never let go between forward and backward
  /// GPU tasks of the main stream, one for each pass of the step.
  std::vector<std::uint32_t> first_forward, first_backward;
};

/// Blocks that repeat are units of their own, without any the layers as large as a bucket; everything else is the root's. In the order of their forward pass, the root first.
std::vector<ShardedUnit> sharded_units(const Builder& builder);

/// Bytes of an element.
struct ShardedTypes {
  std::int64_t kept = 4, gathered = 4, reduced = 4;
};

/// Shards of parameters, gradients and states; units that are gathered while they are used, and one ahead; gradients of a unit
/// on their way.
void shard_memory(Builder& builder, const std::vector<ShardedUnit>& units, const ShardedTypes& types, int shards);

}  // namespace foretrace::whatif
