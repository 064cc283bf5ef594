#pragma once
// What operations are known to do, by name: multiply by weights, keep tensors for their gradients, and which shape their results
// have, by the rules of PyTorch's documentation.

#include <string_view>

#include "work/op_view.hpp"

namespace foretrace::whatif {

/// Operations that multiply by a weight: "aten::linear", "aten::conv2d", "aten::lstm", …
bool multiplies_weights(std::string_view op);
/// Does it keep its input for the backward pass? Its result? Something else it computes (a mask, statistics)?
bool keeps_input(std::string_view op);
bool keeps_result(std::string_view op);
bool keeps_more(std::string_view op);

/// Makes a tensor of one number, to be written into.
bool makes_constant(std::string_view op);

/// Results without a floating-point value: indices, masks, ranges. They feed no operation a change of precision touches.
bool makes_integers(std::string_view op);

/// Empty where the recorded inputs do not determine it (boolean indices, sizes computed in between).
work::Shape result_shape(std::string_view op, const work::OpView& view);

}  // namespace foretrace::whatif
