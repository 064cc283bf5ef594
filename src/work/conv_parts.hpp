#pragma once
// A convolution's backward operation launches the kernels of both gradients; which kernel belongs to which.

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace foretrace::work {

enum class ConvPart : std::uint8_t { kData, kWeight };

/// One part per kernel, given their names in launch order. Names that say so decide (dgrad, wgrad); layout changes belong to
/// the kernel they prepare or finish; the rest follows the order in which the framework computes gradients: data, then weight.
std::vector<ConvPart> conv_parts(std::span<const std::string_view> kernels, bool wants_data, bool wants_weight);

}  // namespace foretrace::work
