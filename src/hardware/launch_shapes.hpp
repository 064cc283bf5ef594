#pragma once
// How PyTorch divides work along rows into blocks and steps, from its sources (2.11: Reduce.cuh, ScanUtils.cuh,
// TensorTopK.cu, DilatedMaxPool2d.cu). These rules decide which features a kernel's time follows, and where it jumps.

#include <cstdint>

#include "foretrace/hardware/device.hpp"

namespace foretrace::hardware {

/// A reduction of `outputs` sums over `inputs` each.
struct ReductionShape {
  std::int64_t lanes = 1;     ///< threads of a block along the dimension whose elements are contiguous
  std::int64_t vector = 1;    ///< outputs that one thread makes at once
  std::int64_t values = 1;    ///< inputs that one thread adds up
  std::int64_t blocks = 1;    ///< in all
  std::int64_t parts = 1;     ///< blocks that share one output, and combine it in memory
  std::int64_t resident = 1;  ///< blocks that the device holds at once
};
/// `along`: the inputs of one output are contiguous, not the outputs; in stretches of `stretch` where given.
ReductionShape reduction_shape(std::int64_t outputs, std::int64_t inputs, bool along, const Device& device,
                               std::int64_t stretch = 0);

/// Prefix sums of rows: a few rows to a block, each a stretch at a time.
struct ScanShape {
  std::int64_t lanes = 16;  ///< threads of a row
  std::int64_t blocks = 1;
  std::int64_t steps = 1;  ///< stretches of two elements a thread, one after the other
  std::int64_t resident = 1;
};
ScanShape scan_shape(std::int64_t rows, std::int64_t columns, const Device& device);

/// Whether the largest of each row are found by several blocks a row.
bool many_blocks_topk(std::int64_t rows, std::int64_t columns);

/// Pooling with channels innermost: what one thread does in turn, and how often the device is filled.
struct ChannelsLastShape {
  std::int64_t threads = 1;   ///< of a block
  std::int64_t channels = 1;  ///< of a thread
  std::int64_t pixels = 1;    ///< of a thread
  double waves = 1;
};
/// `height` and `width` of what is written, `shared_bytes` of shared memory for each of its elements.
ChannelsLastShape channels_last_shape(std::int64_t samples, std::int64_t channels, std::int64_t height,
                                      std::int64_t width, std::int64_t shared_bytes, const Device& device);

}  // namespace foretrace::hardware
