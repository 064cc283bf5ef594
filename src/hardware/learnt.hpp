#pragma once
// Errors of steps predicted on other GPUs, by what the laws were fitted to: spreads/steps.csv, which tools/published_steps.py writes.

#include <string_view>

#include "foretrace/hardware/device.hpp"

namespace foretrace::hardware {

/// What the laws had seen of a GPU.
enum class Learnt : std::uint8_t {
  kDevice,        ///< products of its architecture, on one board at least
  kArchitecture,  ///< none of its architecture
  kGeForce,       ///< a card for games, whose steps nobody measured with our laws in mind
  kVendor,        ///< another maker's libraries
};
Learnt learnt_of(const Device& device, bool half);
std::string_view to_string(Learnt what);
/// Standard deviation of log time of whole steps moved to such a GPU, in half precision or in FP32 and TF32.
double learnt_spread(const Device& device, bool half);

}  // namespace foretrace::hardware
