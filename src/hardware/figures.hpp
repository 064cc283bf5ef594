#pragma once
// Measured figures that single what-ifs use: figures/<device>.csv, which tools/fit_figures.py writes with the number of samples behind
// each median and their spread.

#include <string_view>

#include "foretrace/hardware/device.hpp"

namespace foretrace::hardware {

struct Figures {
  double list_share = 0;          ///< of the memory's bandwidth, reached by an update over lists of tensors
  double capturable_kernels = 0;  ///< small kernels that a capturable update runs in addition to each of a plain one
  double pageable_copy = 0;       ///< a copy from memory that is not pinned, over one that is
  double worker_slowdown = 0;     ///< a batch of a worker process, over one of the main thread
  double gpu_repeat = 0;          ///< of log time in which the GPU works, between two runs of the same step
  double kernel_contention = 0;   ///< share of its speed that a kernel loses during a collective, beyond the SMs taken
  double collective_contention = 0;  ///< share of its speed that a collective loses while kernels run
  double collective_inside =
      0;                ///< the same between ranks inside one GPU, where it goes through the memory that kernels use
  double half_sum = 0;  ///< an all-reduce of half-precision numbers, over one of as many bytes of FP32
  double layout_share = 0;  ///< the most of a convolution's time that changes of layout take
};
/// A table of them.
Figures parse_figures(std::string_view csv);
/// Those of a device; of the reference device where none is known.
const Figures& measured_figures(const Device& device = {});

/// Fixed latencies of a device, and of the GPU of a trace; of the reference device where none were measured.
const trace::Latencies& latencies_of(const Device& device);
const trace::Latencies& latencies_of(const trace::Trace& trace);

}  // namespace foretrace::hardware
