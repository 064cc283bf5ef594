#pragma once
// Scratch memory of convolutions. A strict FP32 algorithm may take gigabytes (FFT); one on tensor cores takes room for the
// tensors its library copies into the layout of its kernel.

#include <cstdint>
#include <utility>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// What scratch blocks become when works change. Blocks are told by the size their convolution needed before, so they are looked for
/// before anything else changes the curve:
///
///   const ScratchSizes sizes = scratch_sizes(model, before);      // works from `before` on replace those in front of it
///   memory::scale_batch(*model.memory, x);
///   give(*model.memory, sizes);
struct ScratchSizes {
  std::vector<std::pair<std::size_t, std::int64_t>> blocks;  ///< index among the curve's blocks, bytes
  std::vector<memory::Block> added;                          ///< of convolutions that needed none before
};
/// Nothing without memory events.
ScratchSizes scratch_sizes(const Model& model, std::size_t before);
void give(memory::Curve& curve, const ScratchSizes& sizes);

/// Both at once, for changes of element type and layout: blocks that no law explains get what the convolution needs now.
void resize_workspaces(Model& model, std::size_t before);

}  // namespace foretrace::whatif
