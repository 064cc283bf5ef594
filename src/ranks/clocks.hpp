#pragma once
// Aligning the clocks of a job's ranks.

#include "foretrace/ranks/job.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::ranks {

struct ClockOptions {
  bool align = true;  ///< false: clocks as written
  bool drift = true;  ///< fit drift where the trace is long enough to show one
};

Clocks align_clocks(const Job& job, const Matching& matching, const ClockOptions& options = {});

}  // namespace foretrace::ranks
