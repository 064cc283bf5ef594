#pragma once
// Order statistics the rules and reports share.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace foretrace {

/// The element a sorted copy would hold at index size * p (clamped). Reorders `values`; must not be empty.
template <class T>
T quantile(std::vector<T>& values, double p) {
  auto k = static_cast<std::size_t>(static_cast<double>(values.size()) * p);
  k = std::min(k, values.size() - 1);
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(k), values.end());
  return values[k];
}

/// Upper median. Reorders `values`; must not be empty.
template <class T>
T median(std::vector<T>& values) {
  return quantile(values, 0.5);
}

}  // namespace foretrace
