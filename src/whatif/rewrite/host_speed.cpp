#include "whatif/rewrite/host_speed.hpp"

#include <cmath>

namespace foretrace::whatif {

void scale_host(Model& m, Draft& draft, double factor) {
  draft.scale(draft.select({.where =
                                [&](std::uint32_t t) {
                                  return m.graph.kind[t] == TaskKind::kCpu || m.graph.kind[t] == TaskKind::kCall;
                                }}),
              factor);
  for (double& speed : m.base.speed) speed *= factor;
  for (Ns& launch : m.launches.cpu_per_launch) launch = std::llround(static_cast<double>(launch) * factor);
}

}  // namespace foretrace::whatif
