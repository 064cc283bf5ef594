#pragma once
// Attention that a step computes from its parts, in one kernel that never writes its scores.

#include <optional>

#include "whatif/rewrite/attentions.hpp"

namespace foretrace::whatif {

/// Kernels and memory. `dtype`: of the fused kernel; none: that of the recorded products. Declined, before anything is changed, where
/// the models do not cover the shape.
Status fuse_attentions(Model& model, Draft& draft, const Dataflow& flow, const std::vector<Attention>& all,
                       std::optional<work::Dtype> dtype = {});

}  // namespace foretrace::whatif
