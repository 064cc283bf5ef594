#include "whatif/job/fold.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace foretrace::whatif {
namespace {

// Ranks tied by messages, each with the least of its own as its name.
class Together {
 public:
  explicit Together(std::size_t ranks) : of_(ranks) { std::iota(of_.begin(), of_.end(), 0U); }
  std::uint32_t find(std::uint32_t rank) {
    while (of_[rank] != rank) rank = of_[rank] = of_[of_[rank]];
    return rank;
  }
  void tie(std::uint32_t a, std::uint32_t b) {
    a = find(a);
    b = find(b);
    of_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::uint32_t> of_;
};

struct Column {
  std::vector<std::uint32_t> ranks, kinds;
  Ns compute = 0;
};

}  // namespace

std::vector<char> simulated_ranks(const std::vector<ranks::RankPlace>& places, const std::vector<Meeting>& meetings,
                                  const std::vector<std::uint32_t>& keep, std::size_t most) {
  std::vector<char> out(places.size(), 1);
  if (places.size() <= most) return out;
  Together together(places.size());
  for (const Meeting& meeting : meetings) {
    if (meeting.awaited != Awaited::kPartner) continue;
    for (const Meeting::Member& member : meeting.members) together.tie(meeting.members.front().rank, member.rank);
  }
  std::map<std::uint32_t, Column> columns;
  for (std::uint32_t r = 0; r < places.size(); ++r) {
    Column& column = columns[together.find(r)];
    column.ranks.push_back(r);
    column.kinds.push_back(places[r].peers);
    column.compute += places[r].compute;
  }
  std::map<std::vector<std::uint32_t>, std::vector<std::pair<Ns, std::uint32_t>>> alike;
  for (auto& [name, column] : columns) {
    std::sort(column.kinds.begin(), column.kinds.end());
    alike[column.kinds].emplace_back(column.compute, name);
  }
  std::fill(out.begin(), out.end(), 0);
  const auto simulate = [&](std::uint32_t name) {
    for (const std::uint32_t r : columns[name].ranks) out[r] = 1;
  };
  for (auto& [kinds, members] : alike) {
    std::sort(members.begin(), members.end());
    simulate(members[(members.size() - 1) / 2].second);
    simulate(members.back().second);
  }
  for (const std::uint32_t r : keep) simulate(together.find(r));
  return out;
}

}  // namespace foretrace::whatif
