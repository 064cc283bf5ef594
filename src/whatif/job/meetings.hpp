#pragma once
// Collectives of a job without their waits: who takes part, who waits for whom, and how long the transfer took each of them after
// the last one it waits for had arrived.

#include <cstdint>
#include <vector>

#include "foretrace/base/types.hpp"
#include "foretrace/ranks/job.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::whatif {

struct Meeting {
  struct Member {
    std::uint32_t rank;   ///< index into Job::ranks
    std::uint32_t event;  ///< of that rank's trace
    Ns transfer;          ///< of its kernel, what is left without waiting
    bool binds;           ///< false: it ended before another one had started, which no clock explains
  };
  ranks::Waits waits = ranks::Waits::kAll;
  std::uint32_t root = 0;  ///< of `members`, where one waits for all or all for one
  std::vector<Member> members;
};

std::vector<Meeting> meetings(const ranks::Matching& matching, const ranks::Clocks& clocks);

}  // namespace foretrace::whatif
