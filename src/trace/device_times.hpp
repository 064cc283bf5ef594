#pragma once
// Three times that separate the device's own delays from waiting. The search for steps and the rules of the graph rest on
// them (tools/threshold_list.py).

#include "foretrace/base/types.hpp"

namespace foretrace::trace {

/// The device's own gap between two tasks is shorter; a longer one has a cause. In 43 traces of an H200 90 % of 18,553 gaps
/// are below 2.1 µs and 99 % below 5.7, inside CUDA graphs and outside; the next longer ones are waits of milliseconds.
inline constexpr Ns kLongestGap = 10 * kNsPerUs;

/// Latencies and gaps above this are left out of medians, and counted as unexplained where nothing causes them. Of 11,459 launches
/// onto an idle stream 99.9 % take less than 3.0 µs.
inline constexpr Ns kLongestLatency = 20 * kNsPerUs;

/// From the end of work on one stream to the start of what waited for it on another: 3 µs on an H200, 15 to 20 on an MI300X, up
/// to 35 where processes share a GPU. A task that stands still for longer was held by something else.
inline constexpr Ns kLongestWake = 50 * kNsPerUs;

}  // namespace foretrace::trace
