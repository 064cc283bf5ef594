#pragma once
// Whether traces that were given together are of one job. Ranks of one job take part in collectives in the same order, or the
// job would hang. Contradictions are described in words.

#include <string>

#include "foretrace/ranks/job.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::ranks {

/// Why nothing ties these traces to each other ("no communication kernel of one matches …"); empty when something does, or
/// when they may be of one job all the same: ranks whose process groups have no member in common.
std::string unrelated(const Job& job, const Matching& matching);

/// What makes it doubtful that they are of one job and one run, in sentences. `aligned`: the clocks are not those as written.
std::vector<std::string> doubts(const Job& job, const Matching& matching, const Clocks& clocks, bool aligned);

}  // namespace foretrace::ranks
