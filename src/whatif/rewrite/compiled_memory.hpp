#pragma once
// What a compiled step keeps of its forward pass.

#include "whatif/rewrite/fusion.hpp"

namespace foretrace::whatif {

/// Of what fused operations allocated for the backward pass, the kernels that replace them keep `held`; what lies between them
/// is never allocated. Copies that products made of their operands are one for all of them.
void keep_what_is_held(Model& model, const Dataflow& flow, const FusionPlan& plan);

}  // namespace foretrace::whatif
