#include "trace/importers/chakra_schedule.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace foretrace::trace {

std::size_t schedule(std::vector<ScheduledNode>& nodes, const std::unordered_map<std::int64_t, std::uint32_t>& place) {
  const auto count = static_cast<std::uint32_t>(nodes.size());
  std::uint32_t lanes = 0;
  for (const ScheduledNode& n : nodes) lanes = std::max(lanes, n.lane + 1);
  std::vector<std::uint32_t> waits(count, 0);
  std::vector<std::uint32_t> first(count + 1, 0);
  const auto each_dependency = [&](auto visit) {
    for (std::uint32_t n = 0; n < count; ++n) {
      for (const std::int64_t id : nodes[n].data_deps) {
        if (const auto it = place.find(id); it != place.end() && it->second != n) visit(it->second, n);
      }
    }
  };
  each_dependency([&](std::uint32_t from, std::uint32_t to) {
    ++waits[to];
    ++first[from + 1];
  });
  for (std::uint32_t n = 0; n < count; ++n) first[n + 1] += first[n];
  std::vector<std::uint32_t> followers(first.back());
  std::vector<std::uint32_t> at(first.begin(), first.end() - 1);
  each_dependency([&](std::uint32_t from, std::uint32_t to) { followers[at[from]++] = to; });

  std::vector<Ns> free(lanes, 0);
  std::vector<Ns> ready(count, 0);
  // Damaged durations add up beyond what a time holds: nothing starts later than this, which is what the file itself could say.
  constexpr Ns kLatest = (std::int64_t{1} << 52) * 1000;
  const auto run = [&](std::uint32_t n) {
    nodes[n].start = std::min(std::max(ready[n], free[nodes[n].lane]), kLatest);
    free[nodes[n].lane] = nodes[n].start + nodes[n].duration;
    return free[nodes[n].lane];
  };
  using Next = std::pair<Ns, std::uint32_t>;
  std::priority_queue<Next, std::vector<Next>, std::greater<>> next;
  for (std::uint32_t n = 0; n < count; ++n) {
    if (waits[n] == 0) next.emplace(0, n);
  }
  std::size_t done = 0;
  for (; !next.empty(); ++done) {
    const std::uint32_t n = next.top().second;
    next.pop();
    const Ns end = run(n);
    for (std::uint32_t f = first[n]; f < first[n + 1]; ++f) {
      const std::uint32_t to = followers[f];
      ready[to] = std::max(ready[to], end);
      if (--waits[to] == 0) next.emplace(ready[to], to);
    }
  }
  for (std::uint32_t n = 0; n < count && done < count; ++n) {
    if (waits[n] > 0) run(n);
  }
  return count - done;
}

}  // namespace foretrace::trace
