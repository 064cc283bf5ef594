#pragma once
// Attention that a step computes from its parts, in one kernel that never writes its scores.

#include <optional>

#include "whatif/rewrite/attentions.hpp"

namespace foretrace::whatif {

/// What PyTorch was asked to fuse and computes from its parts in FP32, because its fused kernels take no FP32 of this kind (grouped
/// queries). They take half precision, unless what is added to the scores needs a gradient.
std::vector<Attention> fused_in_half(const Model& model, const std::vector<Row>& rows, const Dataflow& flow);

/// Kernels and memory. `dtype`: of the fused kernel; none: that of the recorded products. Declined, before anything is changed, where
/// the models do not cover the shape.
Status fuse_attentions(Model& model, Draft& draft, const Dataflow& flow, const std::vector<Attention>& all,
                       std::optional<work::Dtype> dtype = {});

}  // namespace foretrace::whatif
