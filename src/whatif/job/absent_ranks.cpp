#include "whatif/job/absent_ranks.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace foretrace::whatif {

namespace {

// Whether all members of such a group do the same work. Stages do not, nor do a group that ties or clips parameters of all of them.
bool members_are_alike(ranks::Parallelism purpose) {
  using ranks::Parallelism;
  return purpose == Parallelism::kTensor || purpose == Parallelism::kContext || purpose == Parallelism::kExpert ||
         purpose == Parallelism::kSharded || purpose == Parallelism::kData;
}

/// Kernels that should take as long: of ranks that do the same work, the same operation of as many ranks.
struct Family {
  std::uint32_t peers;
  ranks::Parallelism purpose;
  ranks::CollectiveKind kind;
  std::int64_t bytes;
  std::size_t ranks;
  friend auto operator<=>(const Family&, const Family&) = default;
};

struct Kernel {
  std::uint32_t rank, event;
  Ns duration;
};

}  // namespace

AbsentRanks absent_ranks(const ranks::Job& job, const ranks::Matching& matching, const ranks::JobKind& kind) {
  AbsentRanks out;
  out.transfers.resize(job.ranks.size());
  std::set<std::int64_t> given, absent;
  for (const ranks::Rank& r : job.ranks) given.insert(r.rank);
  std::set<std::pair<std::uint32_t, std::uint32_t>> matched;
  for (const ranks::Member& m : matching.members) matched.emplace(m.rank, m.event);
  std::map<Family, std::vector<Kernel>> families;
  for (std::uint32_t r = 0; r < matching.operations.size(); ++r) {
    const std::uint32_t peers = r < kind.places.size() ? kind.places[r].peers : r;
    for (const ranks::GroupOperation& op : matching.operations[r]) {
      const std::vector<std::int64_t>& members = matching.groups[op.group].declared;
      const ranks::Parallelism purpose = kind.purpose(op.group, 1u << static_cast<unsigned>(op.kind));
      if (ranks::waits_of(op.kind) != ranks::Waits::kAll || !members_are_alike(purpose)) continue;
      std::size_t missing = 0;
      for (const std::int64_t member : members) {
        if (given.contains(member)) continue;
        absent.insert(member);
        ++missing;
      }
      if (missing == 0 || matched.contains({r, op.event})) continue;
      families[{peers, purpose, op.kind, op.bytes, members.size()}].push_back(
          {r, op.event, job.ranks[r].trace.events.duration[op.event]});
    }
  }
  for (const auto& [family, kernels] : families) {
    std::vector<Ns> durations;
    for (const Kernel& k : kernels) durations.push_back(k.duration);
    const auto at = static_cast<std::ptrdiff_t>(durations.size() / (2 * family.ranks));
    std::nth_element(durations.begin(), durations.begin() + at, durations.end());
    for (const Kernel& k : kernels)
      out.transfers[k.rank].emplace(k.event, std::min(k.duration, durations[static_cast<std::size_t>(at)]));
  }
  out.like_others.assign(absent.begin(), absent.end());
  return out;
}

void take_out_waits(graph::Graph& graph, const std::unordered_map<std::uint32_t, Ns>& transfers) {
  for (std::size_t t = 0; t < graph.size(); ++t) {
    if (graph.kind[t] != graph::TaskKind::kCollective || !graph.event[t].valid()) continue;
    const auto at = transfers.find(graph.event[t].value);
    if (at != transfers.end()) graph.cost[t] = std::min(graph.cost[t], at->second);
  }
}

}  // namespace foretrace::whatif
