// Walks the ranks breadth-first along the collectives they share, so that every clock is compared with one that is known.

#include "ranks/first_guess.hpp"

#include <map>
#include <queue>

#include "base/statistics.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::ranks {
namespace {

const Member* member(const Matching& m, std::uint32_t k, std::uint32_t rank) {
  for (const Member& x : m.of(m.collectives[k])) {
    if (x.rank == rank) return &x;
  }
  return nullptr;
}

}  // namespace

FirstGuess first_guess(std::size_t ranks, const Matching& matching) {
  FirstGuess out{std::vector<Ns>(ranks, 0), std::vector<Ns>(ranks, 0), std::vector<char>(ranks, 0)};
  std::vector<std::vector<std::uint32_t>> of_rank(ranks);
  for (std::uint32_t k = 0; k < matching.collectives.size(); ++k) {
    for (const Member& m : matching.of(matching.collectives[k])) of_rank[m.rank].push_back(k);
  }
  for (std::uint32_t r = 0; r < ranks; ++r) {
    if (!of_rank[r].empty()) out.anchor[r] = member(matching, of_rank[r].front(), r)->end;
  }
  std::queue<std::uint32_t> reached;
  out.known[0] = 1;
  reached.push(0);
  while (!reached.empty()) {
    const std::uint32_t a = reached.front();
    reached.pop();
    std::map<std::uint32_t, std::vector<Ns>> even, uneven;
    for (const std::uint32_t k : of_rank[a]) {
      const Collective& c = matching.collectives[k];
      const Ns end = member(matching, k, a)->end;
      for (const Member& m : matching.of(c)) {
        if (out.known[m.rank] == 0) (c.ends_together ? even : uneven)[m.rank].push_back(end - m.end);
      }
    }
    for (auto* distances : {&even, &uneven}) {  // ends of rooted kinds do not agree: only where there is nothing else
      for (auto& [r, list] : *distances) {
        if (out.known[r] != 0) continue;
        out.guess[r] = out.guess[a] + median(list);
        out.known[r] = 1;
        reached.push(r);
      }
    }
  }
  // Drift counts from the same moment on all clocks: the first rank's anchor.
  for (std::uint32_t r = 1; r < ranks; ++r) {
    if (out.known[r] != 0) out.anchor[r] = out.anchor[0] - out.guess[r];
  }
  return out;
}

}  // namespace foretrace::ranks
