#pragma once
// A step whose samples have x times as many positions: longer or shorter sequences, or each GPU's part of them.

#include "foretrace/whatif/whatif.hpp"
#include "whatif/dataflow/sequence_shapes.hpp"

namespace foretrace::whatif {

/// What attention sees of positions that are x times as many.
enum class KeysSeen : std::uint8_t {
  kAlike,       ///< the same sequence: keys and queries x times as many
  kAll,         ///< its part of the queries, keys of all positions
  kFewerHeads,  ///< queries and keys of all positions, its part of the heads
};

/// Kernels and memory at the new length. Where attention sees all keys it must be fused. Declined, with the reason, where
/// nothing follows the sequence or shapes are missing.
Status change_length(Model& model, Draft& draft, const SequenceShapes& shapes, double x, KeysSeen seen);

}  // namespace foretrace::whatif
