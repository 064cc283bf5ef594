#pragma once
// The copies a convolution library makes of tensors because its kernel needs the other memory layout.

#include <cstdint>
#include <string_view>
#include <vector>

#include "foretrace/work/work.hpp"

namespace foretrace::hardware {

/// One tensor that is copied into the other layout and, where it is the result, back.
struct LayoutChange {
  std::int64_t elements = 0;
  bool result = false;         ///< behind the convolution; else in front of it
  bool of_parameters = false;  ///< the filter or its gradient
};

/// Which tensors cuDNN copies for this convolution, in the order of its kernels: none for other work.
///
///   layout_changes(half, NCHW, 3 x 3)   operand and filter to NHWC, the result back
std::vector<LayoutChange> layout_changes(const work::Work& convolution);

/// Is it the kernel of such a copy?
bool is_layout_change(std::string_view kernel);
/// What it is called: "nchwToNhwcKernel". `to_channels_last`: into NHWC.
std::string_view layout_change_name(bool to_channels_last);

}  // namespace foretrace::hardware
