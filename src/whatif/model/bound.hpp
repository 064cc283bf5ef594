#pragma once
// What bounds a step: its GPU or its CPU.

#include <algorithm>
#include <string_view>

#include "foretrace/base/types.hpp"

namespace foretrace::whatif {

/// A step whose GPU has work for less than this of it waits for the CPU: replays of steps that the GPU bounds keep it busy for more
/// (data/README.md counts 110 of 162 rows below it, 99 below 0.8: little depends on where the line is).
inline constexpr double kBusyGpu = 0.9;

inline double gpu_share(Ns gpu_time, Ns step) {
  return step > 0 ? std::min(1.0, static_cast<double>(gpu_time) / static_cast<double>(step)) : 1.0;
}

/// How the note of a step on another GPU begins that waits for its CPU.
inline constexpr std::string_view kBoundByCpu = "the CPU bounds the step on ";

}  // namespace foretrace::whatif
