#pragma once
// Which activations belong to which repeated block.

#include <cstddef>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "whatif/dataflow/blocks.hpp"

namespace foretrace::whatif {

/// By block: the memory blocks (indices into the model's curve) that it allocates in its forward pass and keeps for the backward pass.
/// A block's allocations happen between the start of its first operation and the end of its last. The model has a memory curve.
std::vector<std::vector<std::size_t>> activations_of(const Model& model, const std::vector<BlockOfLayers>& blocks);

}  // namespace foretrace::whatif
