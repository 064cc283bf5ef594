#pragma once
// The constraint on all clocks: no rank ends a collective before the ranks it waits for have started it.

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/statistics.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::ranks {

/// Two members (indices into Matching::members): `late` must have started when `early` ends.
struct Order {
  std::uint32_t late, early;
};

/// The worst pair of every collective that is out of order by more than `tolerance`. `start` and `end` give times of a member
/// in µs.
template <class Start, class End>
std::vector<Order> out_of_order(const Matching& m, Start start, End end, double tolerance) {
  std::vector<Order> out;
  for (const Collective& c : m.collectives) {
    const Waits waits = waits_of(c.kind);
    std::uint32_t late = c.first + c.root;
    std::uint32_t early = late;
    for (std::uint32_t i = c.first; i < c.first + c.count; ++i) {
      if (waits != Waits::kOnRoot && start(m.members[i]) > start(m.members[late])) late = i;
      if (waits != Waits::kRootOnAll && end(m.members[i]) < end(m.members[early])) early = i;
    }
    if (late != early && start(m.members[late]) > end(m.members[early]) + tolerance) out.push_back({late, early});
  }
  return out;
}

/// How far apart ranks end the collectives that end for all at once: the median over them.
template <class End>
Ns end_spread(const Matching& m, End end) {
  std::vector<double> spreads;
  for (const Collective& c : m.collectives) {
    if (!c.ends_together) continue;
    double low = end(m.members[c.first]);
    double high = low;
    for (const Member& x : m.of(c)) {
      low = std::min(low, end(x));
      high = std::max(high, end(x));
    }
    spreads.push_back(high - low);
  }
  return spreads.empty() ? 0 : static_cast<Ns>(std::llround(median(spreads) * 1e3));
}

}  // namespace foretrace::ranks
