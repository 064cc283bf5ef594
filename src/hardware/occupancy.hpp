#pragma once
// How many blocks of a kernel one SM holds at a time, and how many waves its grid takes: the calculation of CUDA's occupancy
// interface, from a device file instead of a GPU.
//
//   KernelShape k{.blocks = 4096, .threads = 256, .registers = 40, .shared_bytes = 8192};
//   Occupancy o = occupancy(k, device);      // o.blocks_per_sm == 6 on an A100, o.limit == Limit::kRegisters
//   waves(k, device);                         // 4096 blocks over 108 x 6 places: 6.32

#include <cstdint>
#include <string_view>

#include "foretrace/hardware/device.hpp"

namespace foretrace::hardware {

/// What a launch asks of an SM. Shared memory is static and dynamic together, without what the driver reserves.
struct KernelShape {
  std::int64_t blocks = 0;
  std::int64_t threads = 0;  ///< of one block
  std::int64_t registers = 0;
  std::int64_t shared_bytes = 0;
};

enum class Limit : std::uint8_t { kNone, kThreads, kBlocks, kRegisters, kShared };

struct Occupancy {
  std::int64_t blocks_per_sm = 0;  ///< 0: the kernel cannot run on this device
  Limit limit = Limit::kNone;      ///< what allows no more
};

/// Figures a device file leaves out limit nothing.
Occupancy occupancy(const KernelShape& kernel, const Device& device);

/// Blocks that run at the same time on the whole device: SMs times resident blocks.
std::int64_t blocks_per_wave(const KernelShape& kernel, const Device& device);
/// Blocks over blocks per wave, not rounded; 0 when either is unknown.
double waves(const KernelShape& kernel, const Device& device);

/// "est. achieved occupancy %" as Kineto writes it: resident threads over the most an SM holds, no more than the grid brings.
int achieved_occupancy_pct(const KernelShape& kernel, const Device& device);

}  // namespace foretrace::hardware
