#pragma once
// How large the tensors of a convolution are, in elements.

#include "base/saturate.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::hardware {

struct ConvTensors {
  std::int64_t in = 0, out = 0, filter = 0;
};

inline ConvTensors tensors_of(const work::Convolution& c) {
  return {saturated_product({c.input[0], c.input[1], c.input[2], c.input[3]}),
          saturated_product({c.input[0], c.out_channels, c.out_h, c.out_w}),
          saturated_product({c.out_channels, c.channels_per_group(), c.kernel_h, c.kernel_w})};
}

}  // namespace foretrace::hardware
