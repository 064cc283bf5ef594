#pragma once
// The shape of an operation's result from its recorded inputs, by the rules PyTorch's documentation gives for each operation.

#include <string_view>

#include "work/op_view.hpp"

namespace foretrace::whatif {

/// Results without a floating-point value: indices, masks, ranges. They feed no operation a change of precision touches.
bool makes_integers(std::string_view op);

/// Empty where the recorded inputs do not tell (boolean indices, sizes computed on the way).
work::Shape result_shape(std::string_view op, const work::OpView& view);

}  // namespace foretrace::whatif
