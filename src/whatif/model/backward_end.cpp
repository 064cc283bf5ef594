#include "whatif/model/backward_end.hpp"

namespace foretrace::whatif {

std::set<std::uint32_t> backward_ends(const Graph& g) {
  const graph::GraphLane& main = g.lanes[g.main_lane];
  std::set<std::uint32_t> ends;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) || g.lane[t] == g.main_lane) continue;
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      const std::uint32_t to = g.dep_to[d];
      if (g.dep_kind[d] == DependencyKind::kThread && to >= main.begin && to < main.end &&
          g.kind[to] == TaskKind::kWait)
        ends.insert(to);
    }
  }
  return ends;
}

std::uint32_t end_of_backward(const Graph& g) {
  const std::set<std::uint32_t> ends = backward_ends(g);
  return ends.empty() ? kNone : *ends.rbegin();
}

std::vector<std::uint32_t> first_behind(const Graph& g, std::uint32_t task) {
  // Along a lane everything behind a reached task is reached too: one place per lane says it all.
  std::vector<std::uint32_t> first(g.lanes.size());
  for (std::size_t l = 0; l < g.lanes.size(); ++l) first[l] = g.lanes[l].end;
  std::vector<std::uint32_t> open;
  const auto reach = [&](std::uint32_t t) {
    const std::uint32_t until = first[g.lane[t]];
    if (t >= until) return;
    for (std::uint32_t k = t; k < until; ++k) open.push_back(k);
    first[g.lane[t]] = t;
  };
  if (task + 1 < g.lanes[g.lane[task]].end) reach(task + 1);
  open.push_back(task);
  while (!open.empty()) {
    const std::uint32_t t = open.back();
    open.pop_back();
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] != DependencyKind::kShare) reach(g.dep_to[d]);
    }
  }
  return first;
}

}  // namespace foretrace::whatif
