#pragma once
// What a compiled step does beside the kernels it fuses: products and attention called from the generated code, and what the
// compiler changes about them.

#include <array>

#include "whatif/rewrite/fusion.hpp"

namespace foretrace::whatif {

/// What the passes of this file look at and change.
struct Compiling {
  Model& model;
  Draft& draft;
  const std::vector<Row>& rows;
  const Dataflow& flow;
  const std::vector<std::uint32_t>& region;
  bool whole = true;                    ///< the whole model is compiled, not regions
  std::array<double, 2> launches = {};  ///< from compiled code, by pass (forward, backward)
  Selection gone = {};                  ///< tasks that no longer run
};

/// How often a row's operation runs in a step: more than once where a change before this one repeats it (recomputation, parts
/// of a batch).
double runs_of(const Model& model, const Row& row);

/// Attention through scaled_dot_product_attention. Where the library computes it from its parts, these fuse. A model of the
/// transformers library makes its masks while it is traced, which it leaves out otherwise: fused kernels then lose the
/// causal short cut, and a mask that is the same for all keys, which they do not take, makes them products in FP32.
void compile_attention(Compiling& c);

/// Products in half precision whose sizes are no multiple of 8 elements get operands padded to that.
void pad_products(Compiling& c);

/// Convolutions run with channels innermost, where the compiler expects to gain by that.
void move_channels(Compiling& c);

/// Is this unit attention that the library computes from its parts?
bool attention_in_parts(std::string_view name);

}  // namespace foretrace::whatif
