#pragma once
// Finding the ranks and links that hold a job up.

#include "foretrace/ranks/job.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "ranks/collectives.hpp"
#include "ranks/job_graph.hpp"

namespace foretrace::ranks {

/// `timeline` is the graph's own simulation. A difference the clocks may have made up is named as nobody's.
Stragglers find_stragglers(const Job& job, const Matching& matching, const Clocks& clocks, const JobGraph& graph,
                           const simulate::Timeline& timeline);

}  // namespace foretrace::ranks
