#pragma once
// Ranks on parts of one GPU (MPS, MIG without divided memory) have SMs of their own, and share its memory and its L2.
//
// Ranks that synchronise in collectives run the same kernels at the same time. A kernel that moves far more than the cache holds then
// gets its share of the memory bandwidth, even if it was faster when the other ranks did something else:
//
//   time ≥ parts · bytes that reach memory / bandwidth

#include "foretrace/hardware/device.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::hardware {

/// The GPU that a device is a part of, and how many such parts it has by its SMs. One part: a whole GPU, or none that is known.
struct Parts {
  double count = 1;
  Device whole;
};
Parts parts_of_gpu(const Device& device);

/// Bytes of one run of this work that reach memory when all parts of the GPU do it at the same time: what the cache may hold is left out,
/// and rows that a softmax reads in several passes count each time when those in flight do not fit into the cache.
double bytes_to_memory(const work::Work& work, const Device& whole);

/// The least that one run of this work takes when all parts of the GPU do it at the same time, in nanoseconds. 0 where sizes are unknown.
double least_in_step_ns(const work::Work& work, const Parts& parts);

}  // namespace foretrace::hardware
