#pragma once
// What torch.compile changes in addition to fusing kernels: attention, products and convolutions that the generated code calls, what is
// kept for the backward pass, and what the CPU does.

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

/// Attention through scaled_dot_product_attention. Where the library computes it from its parts, these fuse. A model of the
/// transformers library makes its masks while it is traced, which it leaves out otherwise: fused kernels then lose the
/// causal short cut, and a mask that is the same for all keys, which they do not take, makes them products in FP32.
void compile_attention(Compiling& c);

/// Products in half precision whose sizes are no multiple of 8 elements get operands padded to that.
void pad_products(Compiling& c);

/// Convolutions run with channels innermost, where the compiler expects to gain by that.
void move_channels(Compiling& c);

/// Is this unit attention that the library computes from its parts?
bool is_library_attention(std::string_view name);

/// Of what fused operations allocated for the backward pass, the kernels that replace them keep Fused::held; what is between
/// them is never allocated. Copies that products made of their operands become one for all of them.
void retain_saved_tensors(Model& model, const Dataflow& flow, const FusionPlan& plan);

/// What is compiled costs the CPU guards and arguments for each call and a launch from generated Python for every kernel, in place
/// of modules, dispatch and autograd; the loss, the update and regions that are not compiled keep their time. `graphed`: each
/// pass is one CUDA graph, launched once.
void compile_host(Compiling& compiling, const FusionPlan& plan, bool graphed);

}  // namespace foretrace::whatif
