#pragma once
// Order statistics and errors the rules and reports share.

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "foretrace/base/types.hpp"

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

/// The value below which half of the weight is, of (value, weight) pairs; `otherwise` where there are none.
inline double weighted_median(std::vector<std::pair<double, double>> values, double otherwise) {
  std::sort(values.begin(), values.end());
  double all = 0, sum = 0;
  for (const auto& [value, weight] : values) all += weight;
  for (const auto& [value, weight] : values) {
    sum += weight;
    if (2 * sum >= all) return value;
  }
  return otherwise;
}

/// How far `value` is from `truth`, in percent, with its sign; 0 where there is no truth.
inline double percent_off(Ns value, Ns truth) {
  return truth > 0 ? 100.0 * static_cast<double>(value - truth) / static_cast<double>(truth) : 0;
}

}  // namespace foretrace
