#pragma once
// Repeated blocks of a model, found in the names of its layers: "encoder.layer.3.attention.query" belongs to block
// "encoder.layer.3". What runs between the first layers of two blocks belongs to the earlier one, named or not.

#include <string>
#include <vector>

#include "foretrace/whatif/draft.hpp"

namespace foretrace::whatif {

struct BlockOfLayers {
  std::string name;
  std::vector<std::uint32_t> forward;    ///< GPU tasks, in order of launch
  std::uint32_t first_backward = kNone;  ///< the first GPU task of its backward pass
};

/// Blocks in order of their forward pass; empty when no numbered layers repeat.
std::vector<BlockOfLayers> repeated_blocks(const graph::Graph& graph);
/// The same run by run: a block whose layers run one behind the other several times in a forward pass (ALBERT has one block
/// for all its depth) counts as often, under one name; so a single block may do, and so does the only entry of a list of modules, in a model
/// recorded with one block. Where the trace names no layers, blocks are known by kernels that repeat, and have no name.
std::vector<BlockOfLayers> repeated_runs(const graph::Graph& graph);

/// Blocks of one list of modules ("encoder.layer"), in order of the forward pass.
struct ListOfBlocks {
  std::string name;  ///< empty where the trace names no layers
  std::vector<BlockOfLayers> blocks;
};
/// The lists whose blocks repeat, run by run. A model recorded with one block has none: there the only numbered module ("layers.0") is a
/// list of one. Empty where several could be that.
std::vector<ListOfBlocks> lists_of_blocks(const graph::Graph& graph);

/// Removes the entries of a list of stages that are no stages: next to "features.2.0" and "features.2.1", "features.0" (a stem, a head,
/// a downsampling layer) is no block that repeats.
void drop_entries_outside_stages(std::vector<BlockOfLayers>& blocks);

/// "encoder.layer.3.attention" -> "encoder.layer.3", "layers.encoder_layer_3.mlp" -> "layers.encoder_layer_3"; empty when no
/// part of the name is or ends with a number.
std::string block_of(std::string_view layer_name);

/// `times` runs of `length` items each, the first at `begin`; nothing repeats where `times` is 0.
struct Repeats {
  std::size_t begin = 0, length = 0, times = 0;
};

/// The repetition that covers most of the sequence, of those the shortest; only of `times` runs, where that is given. Runs are at least
/// four items long, there are three or more of them, and they make up half of the sequence.
Repeats find_repeats(const std::vector<std::uint32_t>& sequence, std::size_t times = 0);

}  // namespace foretrace::whatif
