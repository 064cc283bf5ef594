#pragma once
// Parts of a model chosen by the names of its modules: an autocast region, a compiled region.
//
// A pattern is a glob over qualified names, and chooses a module with everything inside: "layer3", "encoder.layer.*",
// "h.0.mlp". The outermost module that a pattern matches is one region. What runs between two named layers of a region
// belongs to it, and so does what runs behind its last one until the next named layer (a block's residual sum).

#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "whatif/dataflow/dataflow.hpp"

namespace foretrace::whatif {

struct LayerRegions {
  std::vector<std::string> names;       ///< in the order of the graph's layers
  std::vector<std::uint32_t> of_layer;  ///< by layer of the graph: its region, kNone outside
  std::vector<std::uint32_t> of_unit;   ///< by unit of the forward pass

  /// Of an operation of either pass; where its unit is unknown, that of the layer of `task`.
  [[nodiscard]] std::uint32_t of(const Graph& graph, const Dataflow& flow, std::uint32_t event,
                                 std::uint32_t task) const;
};

/// Declined where the step names no layers, or a pattern matches none: the message names what is there.
Result<LayerRegions> choose_regions(const Model& model, const Dataflow& flow, const std::vector<std::string>& patterns);

/// "no layer of this step is called 'x'", and what is there: for everything that takes names of layers.
tl::unexpected<Error> no_such_layer(std::string_view pattern, const std::vector<std::string>& names);

}  // namespace foretrace::whatif
