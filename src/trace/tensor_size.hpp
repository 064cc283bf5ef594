#pragma once
// The size of a tensor, and which sizes are impossible: files may be damaged.

#include <cstdint>
#include <vector>

#include "base/saturate.hpp"

namespace foretrace::trace {

/// A thousand times what the largest GPU holds in bytes.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

inline std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n = saturated_product(n, d);
  return n;
}

/// No dimension is negative, and the tensor would fit into some memory even if those of no elements had one.
inline bool possible_shape(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) {
    if (d < 0) return false;
    if (d > 0) n = saturated_product(n, d);
    if (n > kMostElements) return false;
  }
  return true;
}

}  // namespace foretrace::trace
