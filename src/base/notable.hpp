#pragma once
// Two shares that decide between explanations, the same everywhere (tools/threshold_list.py).

#include <cstdint>

namespace foretrace {

/// A part above one in ten is notable; a smaller one is an exception, such as a row that went wrong or a step that differs.
inline constexpr std::int64_t kNotable = 10;
/// A part above one in four decides: what is known of the rest no longer gives the answer.
inline constexpr std::int64_t kDecisive = 4;

constexpr bool is_notable(std::int64_t part, std::int64_t whole) { return whole > 0 && part > whole / kNotable; }
constexpr bool is_decisive(std::int64_t part, std::int64_t whole) { return whole > 0 && part > whole / kDecisive; }
/// The share of 1 that is notable, and what is left of 1 when a notable part is taken off.
inline constexpr double kNotableShare = 1.0 / kNotable;

}  // namespace foretrace
