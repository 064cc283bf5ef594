#pragma once
// Finding the ranks and links that delay a job.

#include "foretrace/ranks/job.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "ranks/collectives.hpp"
#include "ranks/job_graph.hpp"
#include "ranks/loading_ranges.hpp"

namespace foretrace::ranks {

/// `loading`: by index into Job::ranks. `timeline` is the graph's own simulation; `places` says which ranks do the same work, for only those are compared. A
/// difference the clocks may have made up, or that two runs of the same program show too, is named as nobody's.
Stragglers find_stragglers(const std::vector<LoadingRanges>& loading, const Matching& matching, const Clocks& clocks,
                           const JobGraph& graph, const simulate::Timeline& timeline,
                           const std::vector<RankPlace>& places);

}  // namespace foretrace::ranks
