#pragma once
// Profilers stamp calls by the CPU's clock and work by the GPU's, and put both on one only to a few microseconds. Where the
// GPU's clock is ahead, work seems to end after the call that waited for it returned, and would not be recognised as the cause.

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// Moves GPU rows forward where many of them start before their launches: then the two clocks are of different domains. Else
/// moves them back by as much as the calls that waited for them demand and their launches allow; says so in the
/// diagnostics. Does nothing where the two clocks agree.
void align_device_clock(Trace& trace);

}  // namespace foretrace::trace
