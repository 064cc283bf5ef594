#include "whatif/job/meetings.hpp"

#include <algorithm>

namespace foretrace::whatif {

using ranks::Waits;

namespace {

// When the last one that member i waits for had arrived.
Ns met(const Meeting& meeting, const std::vector<Ns>& start, std::uint32_t i) {
  const Ns last = *std::max_element(start.begin(), start.end());
  switch (meeting.waits) {
    case Waits::kAll:
      return last;
    case Waits::kOnRoot:
      return std::max(start[i], start[meeting.root]);
    case Waits::kRootOnAll:
      return i == meeting.root ? last : start[i];
  }
  return last;
}

}  // namespace

std::vector<Meeting> meetings(const ranks::Matching& matching, const ranks::Clocks& clocks) {
  std::vector<Meeting> out;
  out.reserve(matching.collectives.size());
  for (const ranks::Collective& c : matching.collectives) {
    Meeting meeting{ranks::waits_of(c.kind), c.root, {}};
    std::vector<Ns> start, end;
    for (const ranks::Member& m : matching.of(c)) {
      start.push_back(clocks.clocks[m.rank].aligned(m.start));
      end.push_back(std::max(start.back(), clocks.clocks[m.rank].aligned(m.end)));
      meeting.members.push_back({m.rank, m.event, 0, true});
    }
    for (std::uint32_t i = 0; i < meeting.members.size(); ++i) {
      const Ns from = met(meeting, start, i);
      meeting.members[i].binds = from <= end[i];
      meeting.members[i].transfer = end[i] - (from <= end[i] ? from : start[i]);
    }
    out.push_back(std::move(meeting));
  }
  return out;
}

}  // namespace foretrace::whatif
