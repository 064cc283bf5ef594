#pragma once
// Fixed latencies of the GPU and its driver, on top of any work. Used where a trace has too few samples of its own. Measured in traces
// by tools/fit_latencies.py, which writes latencies/<device>.csv with the number of samples and the spread of each figure.

#include <string_view>

#include "foretrace/base/types.hpp"

namespace foretrace::trace {

struct Latencies {
  Ns kernel_gap = 0;        ///< end of a kernel to the start of the next on its stream, launched long before
  Ns launch_latency = 0;    ///< end of a launch call to the start of its kernel on an idle stream
  Ns graph_gap = 0;         ///< end of a kernel to the start of the next of the same CUDA graph
  Ns short_kernel = 0;      ///< a kernel of at most one block per SM
  Ns empty_kernel = 0;      ///< an element-wise kernel of one block: no kernel takes less
  Ns sync_return = 0;       ///< end of the last kernel to the return of the call that waits for it
  Ns sync_call = 0;         ///< a call that waits for work and finds none
  Ns collective_start = 0;  ///< return of a collective's call to its kernel on an idle stream
  Ns stream_hand_over = 0;  ///< end of a kernel to the start of the next on another stream that waits for it
  Ns result_ready =
      0;  ///< JAX, time of the host: end of a step's last kernel to the host having marked its results as ready
};

/// A table of them.
Latencies parse_latencies(std::string_view csv);

/// Those of the reference device, where nothing says which device it is. hardware::latencies_of gives those of a device.
const Latencies& default_latencies();

}  // namespace foretrace::trace
