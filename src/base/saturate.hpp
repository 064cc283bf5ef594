#pragma once
// Sizes as files state them. A damaged file may name a tensor of 2^40 x 2^40 elements; counting them must give a
// large number, not undefined behaviour.

#include <algorithm>
#include <cstdint>
#include <initializer_list>

namespace foretrace {

/// No count is larger. Sixteen times it, and the sum of a hundred such, still fit into 64 bits, and a double holds it exactly.
inline constexpr std::int64_t kMostCounted = std::int64_t{1} << 52;

constexpr std::int64_t saturated(std::int64_t n) { return std::clamp(n, -kMostCounted, kMostCounted); }

/// Rounded towards zero.
constexpr std::int64_t saturated(double n) {
  if (!(n > -static_cast<double>(kMostCounted))) return -kMostCounted;
  return n < static_cast<double>(kMostCounted) ? static_cast<std::int64_t>(n) : kMostCounted;
}

/// a * b; with more of them, from left to right. Zero times anything is zero.
constexpr std::int64_t saturated_product(std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  if (!__builtin_mul_overflow(a, b, &out)) return saturated(out);
  return (a < 0) == (b < 0) ? kMostCounted : -kMostCounted;
}
constexpr std::int64_t saturated_product(std::initializer_list<std::int64_t> all) {
  std::int64_t out = 1;
  for (const std::int64_t n : all) out = saturated_product(out, n);
  return out;
}

constexpr std::int64_t saturated_sum(std::int64_t a, std::int64_t b) { return saturated(saturated(a) + saturated(b)); }

}  // namespace foretrace
