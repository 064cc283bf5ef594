#pragma once
// Collectives of a job without their waits: who takes part, who waits for whom, and how long the transfer took each of them after
// the last one it waits for had arrived.

#include <cstdint>
#include <vector>

#include "foretrace/base/types.hpp"
#include "ranks/collectives.hpp"
#include "ranks/job_graph.hpp"

namespace foretrace::whatif {

/// Who is waited for.
enum class Awaited : std::uint8_t { kAll, kRoot, kPartner };

struct Meeting {
  struct Member {
    std::uint32_t rank;   ///< index into Job::ranks
    std::uint32_t event;  ///< of that rank's trace
    Ns transfer;          ///< of its kernel, what is left without waiting
    bool waits;           ///< false: the root of a broadcast, or a send that fits into a buffer
    bool binds;           ///< false: it ended before another one had started, which no clock explains
  };
  Awaited awaited = Awaited::kAll;
  std::uint32_t root = 0;  ///< of `members`
  std::vector<Member> members;
};

/// Those of a step.
std::vector<Meeting> meetings(const ranks::Matching& matching, const ranks::JobGraph& step);

}  // namespace foretrace::whatif
