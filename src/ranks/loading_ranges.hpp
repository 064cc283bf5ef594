#pragma once
// When the threads of a rank fetched their input.

#include <utility>
#include <vector>

#include "foretrace/base/types.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::ranks {

/// Begin and end on the trace's own clock, by begin; they do not overlap.
using LoadingRanges = std::vector<std::pair<Ns, Ns>>;
LoadingRanges loading_ranges(const trace::Trace& trace);

}  // namespace foretrace::ranks
