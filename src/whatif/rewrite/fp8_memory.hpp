#pragma once
// Memory of a step whose linear layers multiply in FP8.

#include <vector>

#include "whatif/rewrite/fp8_layers.hpp"

namespace foretrace::whatif {

/// Converted layers keep input and weight in one byte an element. A tensor that only they kept is free once the forward pass has
/// read it; for a moment each conversion holds its tensor twice in FP32. The model must have a curve.
void fp8_memory(Model& model, const Dataflow& flow, const std::vector<Fp8Layer>& layers);

}  // namespace foretrace::whatif
