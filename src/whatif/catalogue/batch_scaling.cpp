#include "whatif/catalogue/batch_scaling.hpp"

#include <algorithm>
#include <cmath>

#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

// A kernel that does next to nothing still takes this long on an H200; only what lies above grows with the data.
constexpr double kKernelFloor = 1500;

double linear(double was, double x) {
  const double floor = std::min(was, kKernelFloor);
  return floor + (was - floor) * x;
}

bool works_on_samples(Phase phase) { return phase != Phase::kOptimizer && phase != Phase::kCommunication; }

}  // namespace

std::size_t scale_batch(Model& m, Draft& draft, double x) {
  const Graph& g = m.graph;
  std::size_t changed = 0;
  for (const Row& row : rows_of(m, draft)) {
    const hardware::Work work = m.works[row.work];
    if (!works_on_samples(row.phase) || work.of_parameters) continue;
    const hardware::Work becomes = with_batch(work, x);
    const hardware::Cost cost = rescale(static_cast<double>(row.time), work, m.device, becomes, m.device);
    const bool known = cost.known && work.family != hardware::Family::kOther;
    set_row(m, draft, row, known ? cost.ns : linear(static_cast<double>(row.time), x), becomes, graph::Origin::kScaled);
    ++changed;
  }
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || g.work[t] != Graph::kNoWork || draft.removed(t) || !works_on_samples(g.phase[t]))
      continue;
    draft.set(t, static_cast<Ns>(linear(static_cast<double>(draft.cost(t)), x)), graph::Origin::kScaled);
    ++changed;
  }
  if (m.memory) {
    for (memory::Block& b : m.memory->blocks) {
      const bool data = b.kind == memory::Kind::kActivation || b.kind == memory::Kind::kInput ||
                        (b.kind == memory::Kind::kTemporary && b.stage != memory::Stage::kUpdate);
      if (data) b.bytes = static_cast<std::int64_t>(static_cast<double>(b.bytes) * x);
    }
  }
  return changed;
}

}  // namespace foretrace::whatif
