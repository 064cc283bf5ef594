#pragma once
// What a kernel loses when the thread blocks of a collective hold some of the SMs: from its grid, not from an average.
//
// A block of NCCL takes nearly all registers of an SM, so nothing else runs on it. The blocks of a kernel then share the other SMs, and
// its time follows those of the busiest one:
//
//   ceil(blocks / SMs)  →  ceil(blocks / (SMs − taken))
//
// Blocks of a cluster start together, on as many SMs as they need: a grid that fills the GPU exactly takes twice as long as soon as one
// of its clusters finds no room. A kernel with one block per SM that takes its tiles one by one loses no more than the SMs.

#include <string_view>

#include "foretrace/hardware/device.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::hardware {

/// The blocks of a cluster, where the name of the kernel says it (cuBLAS, CUTLASS); else 1.
int cluster_blocks(std::string_view kernel);

/// The speed of a kernel on a device of which `taken` SMs are held, over its speed on all of them.
double speed_beside(const trace::KernelLaunch& launch, std::string_view kernel, const Device& device, int taken);

}  // namespace foretrace::hardware
