#pragma once
// What operations are known to do, by name: multiply by weights, keep tensors for their gradients.

#include <string_view>

namespace foretrace::whatif {

/// Operations that multiply by a weight: "aten::linear", "aten::conv2d", "aten::lstm", …
bool multiplies_weights(std::string_view op);
/// Does it keep its input for the backward pass? Its result? Something else it computes (a mask, statistics)?
bool keeps_input(std::string_view op);
bool keeps_result(std::string_view op);
bool keeps_more(std::string_view op);

/// Makes a tensor of one number, to be written into.
bool makes_one_number(std::string_view op);

}  // namespace foretrace::whatif
