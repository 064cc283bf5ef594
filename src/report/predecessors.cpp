#include "report/predecessors.hpp"

namespace foretrace::report {

std::vector<std::vector<Predecessor>> predecessors(const graph::Graph& g) {
  std::vector<std::vector<Predecessor>> out(g.size());
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!g.first_of_lane(t) && !g.lanes[g.lane[t]].by_priority) out[t].push_back({t - 1, graph::DependencyKind::kLane});
  }
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] == graph::DependencyKind::kShare) continue;
      out[g.dep_to[d]].push_back({t, g.dep_kind[d]});
    }
  }
  return out;
}

}  // namespace foretrace::report
