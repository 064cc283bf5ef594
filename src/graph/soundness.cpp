#include "foretrace/graph/soundness.hpp"

#include <algorithm>

namespace foretrace::graph {

Status verify_or_relax(Graph& g) {
  Status sound = verify(g);
  if (sound || g.soft_dependencies.empty()) return sound;
  std::vector<Dependency> firm;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] != DependencyKind::kShare)
        firm.push_back({t, g.dep_to[d], g.dep_lag[d], g.dep_point[d], g.dep_kind[d]});
    }
  }
  g.notes.dropped_soft += g.soft_dependencies.size();
  g.soft_dependencies.clear();
  std::fill(g.soft.begin(), g.soft.end(), kNone);
  finish(g, std::move(firm));
  return verify(g);
}

}  // namespace foretrace::graph
