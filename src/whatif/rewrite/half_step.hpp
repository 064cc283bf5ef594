#pragma once
// A step whose parameters arrive in half precision, without autocast: fully_shard's MixedPrecisionPolicy(param_dtype), or
// weights that are half themselves. Every operation computes in the type of its inputs; what the program itself converts to
// FP32 stays FP32; the casts that autocast made of weights, inputs and gradients are gone. A step recorded in FP32 shows no
// conversions: there half_program.hpp finds them.

#include <vector>

#include "whatif/dataflow/dataflow.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// What is half then.
struct HalfStep {
  std::vector<char> values;  ///< by value of the flow
  std::vector<char> units;   ///< by unit: it computes in half
  std::vector<char> leaves;  ///< by unit: it converts explicitly between types, and still does
};
HalfStep half_step(const Model& model, const Dataflow& flow, const std::vector<Row>& rows);

/// Writes it into the draft, and into the memory curve where there is one. Returns how many operations changed.
std::size_t compute_in_half(Model& model, Draft& draft, work::Dtype dtype);

}  // namespace foretrace::whatif
