#pragma once
// What limits a step: its GPU or its CPU.

#include <algorithm>
#include <string_view>

#include "base/notable.hpp"
#include "foretrace/base/types.hpp"

namespace foretrace::whatif {

inline double gpu_share(Ns gpu_time, Ns step) {
  return step > 0 ? std::min(1.0, static_cast<double>(gpu_time) / static_cast<double>(step)) : 1.0;
}

/// Whether a step waits for its CPU: its GPU has no work for a notable part of it. (data/README.md counts 110 of 162 rows like that, and
/// 99 with twice the part: little depends on where the line is.)
constexpr bool waits_for_cpu(double gpu_share) { return gpu_share < 1 - kNotableShare; }

/// How the note of a step on another GPU begins that waits for its CPU.
inline constexpr std::string_view kBoundByCpu = "the CPU bounds the step on ";

}  // namespace foretrace::whatif
