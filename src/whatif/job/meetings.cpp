#include "whatif/job/meetings.hpp"

#include <algorithm>

namespace foretrace::whatif {

namespace {

Awaited awaited_in(ranks::CollectiveKind kind) {
  if (kind == ranks::CollectiveKind::kSendRecv) return Awaited::kPartner;
  return ranks::waits_of(kind) == ranks::Waits::kOnRoot ? Awaited::kRoot : Awaited::kAll;
}

// When the last one that member i waits for had arrived.
Ns met(const Meeting& meeting, const ranks::Rendezvous& measured, std::uint32_t i) {
  switch (meeting.awaited) {
    case Awaited::kRoot:
      return measured.parts[meeting.root].start;
    case Awaited::kPartner:
      return measured.parts[1 - i].start;
    case Awaited::kAll:
      break;
  }
  return measured.parts[measured.last].start;
}

}  // namespace

std::vector<Meeting> meetings(const ranks::Matching& matching, const ranks::JobGraph& step) {
  std::vector<Meeting> out;
  out.reserve(step.collectives.size());
  for (const ranks::Rendezvous& measured : step.collectives) {
    const ranks::Collective& c = matching.collectives[measured.collective];
    Meeting meeting{awaited_in(c.kind), c.root, {}};
    for (std::uint32_t i = 0; i < measured.parts.size(); ++i) {
      const ranks::Rendezvous::Part& p = measured.parts[i];
      const bool binds = !p.tail.valid() || met(meeting, measured, i) <= p.end;
      meeting.members.push_back({p.rank, matching.members[c.first + i].event, p.transfer, p.tail.valid(), binds});
    }
    out.push_back(std::move(meeting));
  }
  return out;
}

}  // namespace foretrace::whatif
