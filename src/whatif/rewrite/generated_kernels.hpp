#pragma once
// Kernels a compiler generates, and what they take: a start and bytes at a share of what a streaming kernel reaches, or
// arithmetic where that is longer. The shares and costs are data (src/whatif/compilers, written by tools/fit_compiled.py).
//
//   Generated kernel{.bytes = 50e6, .slow = 12.6e6};     // GELU of 4096 x 3072 elements in half precision
//   time_of(kernel, h200);                               // 24 us: the arithmetic, not the bytes

#include <cstdint>

#include "foretrace/hardware/device.hpp"

namespace foretrace::whatif {

/// One or several generated kernels that belong together: what they move and compute.
struct Generated {
  double bytes = 0;             ///< read and written by the main kernel
  double random = 0;            ///< elements that draw a random number (dropout)
  double slow = 0;              ///< elements through a function that costs more than its bytes (GELU, tanh)
  double statistics = 0;        ///< bytes read once more for sums over all samples (batch norm, forward)
  double columns = 0;           ///< bytes read once more for sums over all rows (gradients of weights, backward)
  std::uint32_t finishing = 0;  ///< second stages of such sums
  bool in_place = false;        ///< writes over what it read, which the cache still holds (gradients)
  bool copy = false;            ///< only moves data: casts of weights, copies into another layout

  [[nodiscard]] bool any() const { return bytes > 0; }
  [[nodiscard]] std::uint32_t kernels() const {
    return (any() ? 1U : 0U) + (statistics > 0 ? 1U : 0U) + (columns > 0 ? 1U : 0U) + finishing;
  }
};

/// What the gradient of GELU computes, in GELUs; that of tanh is as much as tanh.
double gelu_gradient();

/// ns they take together.
double time_of(const Generated& kernel, const hardware::Device& device);

}  // namespace foretrace::whatif
