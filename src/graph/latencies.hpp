#pragma once
// How long things take that do nothing: the one table of latencies, latencies/<device>.csv, read from traces by
// tools/fit_latencies.py with how many samples each figure rests on and how far they spread. Used where a trace has too few
// of its own. Only the H200's is there; other devices get it too.

#include "foretrace/base/types.hpp"

namespace foretrace::graph {

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
};
const Latencies& usual_latencies();

}  // namespace foretrace::graph
