#include "whatif/catalogue/batch_scaling.hpp"

#include <algorithm>
#include <cmath>

namespace foretrace::whatif {

namespace {

// A kernel that does next to nothing still takes this long on an H200; only what lies above grows with the data.
constexpr double kKernelFloor = 1500;

// Blocks run in waves; time goes with the number of waves, and below one wave adding blocks is free until the GPU is full.
// With many waves the last one matters little, and the rule becomes linear by itself.
double wave_factor(double waves, double x) {
  if (waves <= 0) return x;
  const double more = waves * x;
  if (waves < 1) return std::max(1.0, more < 1 ? 1.0 : more);
  return std::max(1.0, std::ceil(more - 0.05)) / std::ceil(waves - 0.05);
}

bool grows_by_waves(hardware::Family family) {
  using hardware::Family;
  return family == Family::kGemm || family == Family::kConvForward || family == Family::kConvDataGrad;
}

}  // namespace

std::size_t scale_batch(Model& m, Draft& draft, double x) {
  const Graph& g = m.graph;
  std::size_t changed = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || draft.removed(t)) continue;
    if (g.phase[t] == Phase::kOptimizer || g.phase[t] == Phase::kCommunication) continue;
    const double was = static_cast<double>(draft.cost(t));
    double becomes = was;
    const hardware::Work* work = g.work[t] == Graph::kNoWork ? nullptr : &m.works[g.work[t]];
    if (work != nullptr && grows_by_waves(work->family) && work->waves > 0) {
      becomes = was * wave_factor(work->waves, x);
    } else {
      const double floor = std::min(was, kKernelFloor);
      becomes = floor + (was - floor) * x;
    }
    draft.set(t, static_cast<Ns>(becomes), graph::Origin::kScaled);
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
