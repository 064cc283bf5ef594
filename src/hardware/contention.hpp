#pragma once
// How much slower a kernel runs while the thread blocks of a collective occupy some of the SMs, computed from its grid.
//
// A block of NCCL takes nearly all registers of an SM, so nothing else runs on it. The blocks of a kernel then share the other SMs, and
// its time follows those of the busiest one:
//
//   ceil(blocks / SMs)  →  ceil(blocks / (SMs − taken))
//
// Blocks of a cluster start together on pairs of SMs, so they lose the pair. Products of cuBLAS on Hopper launch as many blocks as there are
// SMs, and each block computes one tile of the result after another, in tiles / resident blocks turns. A product of one turn takes
// twice as long as soon as one cluster finds no room.

#include <cstdint>
#include <string_view>

#include "foretrace/hardware/device.hpp"

namespace foretrace::hardware {

/// The blocks of a cluster, where the name of the kernel says it (cuBLAS, CUTLASS); else 1.
int cluster_blocks(std::string_view kernel);

/// A kernel as far as its blocks say how it goes with fewer SMs.
struct LaunchedKernel {
  std::string_view name;
  std::int64_t blocks = 0;
  std::int64_t rows = 0, columns = 0;  ///< of the result of a product; 0: none, or unknown
  double us = 0;                       ///< alone
  double begin_us = 0;                 ///< of that, what a kernel takes however little it does
};

/// Its speed on a device of which a collective's blocks hold `taken` SMs, over its speed on all of them.
double speed_during_collective(const LaunchedKernel& kernel, const Device& device, int taken);

}  // namespace foretrace::hardware
