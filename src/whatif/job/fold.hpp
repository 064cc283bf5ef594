#pragma once
// Large jobs: ranks that do the same work stand for each other, so that a change of the job costs what its kinds of ranks cost.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "foretrace/ranks/job.hpp"
#include "whatif/job/meetings.hpp"

namespace foretrace::whatif {

/// A job of more ranks is folded.
inline constexpr std::size_t kMostSimulated = 64;

/// By index into ranks::Job::ranks: whether the rank is simulated. Ranks that send to each other (the stages of one replica's pipeline)
/// belong together; of those of one kind, the typical ones by their compute time are simulated, and the slowest, for which the others
/// wait. All ranks of a job of at most `most`, and those of `keep` (indices) in any case.
std::vector<char> simulated_ranks(const std::vector<ranks::RankPlace>& places, const std::vector<Meeting>& meetings,
                                  const std::vector<std::uint32_t>& keep, std::size_t most = kMostSimulated);

}  // namespace foretrace::whatif
