#pragma once
// Ranks of a job without a trace that do the same work as one that has a trace: those it divides a tensor, the sequence, the experts,
// the parameters or the data with. They are assumed to arrive at a collective when it does, so that no rank waits for them.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/ranks/job.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::whatif {

struct AbsentRanks {
  std::vector<std::int64_t> like_others;  ///< the absent ranks that do what a given one does, sorted
  /// By index into ranks::Job::ranks and event: collectives that no other given rank shows, without waiting for the absent ones.
  std::vector<std::unordered_map<std::uint32_t, Ns>> transfers;
};

/// How long such a collective waited is not recorded. Of g ranks that do the same work each is the last to arrive in one of g
/// collectives, and then the kernel only transfers: the transfer is the median of that many shortest kernels of its kind and size, on all
/// given ranks of the class and in all steps.
AbsentRanks absent_ranks(const ranks::Job& job, const ranks::Matching& matching, const ranks::JobKind& kind);

/// In a rank's own graph: those collectives at the cost of their transfers.
void take_out_waits(graph::Graph& graph, const std::unordered_map<std::uint32_t, Ns>& transfers);

}  // namespace foretrace::whatif
