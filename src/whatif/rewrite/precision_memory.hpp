#pragma once
// Memory of a step whose operations change their element type: under autocast, and with linear layers in FP8.

#include <vector>

#include "whatif/rewrite/autocast.hpp"
#include "whatif/rewrite/fp8_layers.hpp"

namespace foretrace::whatif {

/// Results, casts and gradients take what their new element types do, and parameters where those are half. The model must have a memory curve.
void autocast_memory(Model& model, const Dataflow& flow, const Autocast& cast);

/// A compiled program whose passes compute in half precision: its temporary buffers hold tensors of half the size, and a copy of the parameters. The model must
/// have a memory curve.
void half_program_memory(Model& model);
/// The reverse: buffers twice as large, without that copy.
void full_program_memory(Model& model);

/// Layers in FP8 keep input and weight in one byte an element. A tensor that only they kept is free once the forward pass has
/// read it; for a moment each conversion holds its tensor twice in FP32. The model must have a memory curve.
void fp8_memory(Model& model, const Dataflow& flow, const std::vector<Fp8Layer>& layers);

}  // namespace foretrace::whatif
