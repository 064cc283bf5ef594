#pragma once
// CPU time between operations that belongs to an enclosing range: data loading, and what a program does inside its own ranges
// without calling an operation.

#include <cstdint>
#include <vector>

#include "foretrace/base/types.hpp"

namespace foretrace::graph {

struct StepState;

struct RangeTime {
  Ns begin, end;
  std::uint32_t event;   ///< the range
  bool waits_for_batch;  ///< the main thread waits for a batch that others make
};

/// Of a thread in [from, to), by time; they do not overlap. All time of a loader's range between operations is in the list, of other
/// ranges what follows their last operation. (What comes before an operation in the same range is the operation's.)
std::vector<RangeTime> range_times(const StepState& state, std::uint32_t trace_lane, Ns from, Ns to);

}  // namespace foretrace::graph
