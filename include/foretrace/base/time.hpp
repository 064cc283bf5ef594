#pragma once
// Time in foretrace is a count of nanoseconds in a signed 64-bit integer: exact, cheap to compare, and wide enough for
// absolute epoch times (1.8e18 of 9.2e18). No time ever passes through floating point on its way into a column; only
// reports divide by 1e6 to print milliseconds.

#include <cstdint>
#include <limits>

namespace foretrace {

using Ns = std::int64_t;

inline constexpr Ns kNsPerUs = 1'000;
inline constexpr Ns kNsPerMs = 1'000'000;
inline constexpr Ns kNsPerSecond = 1'000'000'000;

/// Milliseconds for people and JSON.
constexpr double to_ms(Ns ns) { return static_cast<double>(ns) / 1e6; }
/// Microseconds for people and JSON.
constexpr double to_us(Ns ns) { return static_cast<double>(ns) / 1e3; }

}  // namespace foretrace
