#include "whatif/simulate_model.hpp"

#include <algorithm>

namespace foretrace::whatif {

namespace {

// The part of each task's time in which memory traffic is what limits it: 1 for a copy, near 0 for a large product.
std::vector<float> memory_share(const Model& m) {
  const graph::Graph& g = m.graph;
  std::vector<Ns> row_time(m.works.size(), 0);
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) && m.works.of(t) != nullptr) row_time[m.works.row_of(t)] += g.cost[t];
  }
  constexpr float kUnknown = 0.5F;
  std::vector<float> share(g.size(), kUnknown);
  const double gbs = m.device.streaming_gbs();
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == graph::TaskKind::kMemcpy || g.kind[t] == graph::TaskKind::kMemset) share[t] = 1;
    const work::Work* work = m.works.of(t);
    if (work == nullptr || gbs <= 0 || work->bytes() <= 0) continue;
    const Ns time = row_time[m.works.row_of(t)];
    if (time <= 0) continue;
    const double busy = work->bytes() / gbs / static_cast<double>(time);
    share[t] = static_cast<float>(std::min(1.0, busy));
  }
  return share;
}

simulate::Contention contention_of(const Model& m) {
  simulate::Contention c;
  const std::vector<float> memory = memory_share(m);
  c.beside_communication.resize(memory.size());
  for (std::size_t t = 0; t < memory.size(); ++t) {
    c.beside_communication[t] =
        static_cast<float>((1 - m.interference->sm_share) * (1 - m.interference->memory * memory[t]));
  }
  c.beside_computation.assign(memory.size(), static_cast<float>(1 - m.interference->collective));
  for (const std::vector<std::string>& names : m.interference->links) {
    c.link.resize(memory.size(), kNone);
    for (const graph::GraphLane& lane : m.graph.lanes) {
      if (std::find(names.begin(), names.end(), m.graph.strings[lane.name]) == names.end()) continue;
      std::fill(c.link.begin() + lane.begin, c.link.begin() + lane.end, c.links);
    }
    ++c.links;
  }
  return c;
}

}  // namespace

ModelRuns::ModelRuns(const Model& model)
    : contention_(model.interference ? std::optional(contention_of(model)) : std::nullopt),
      runs_(model.graph, {.contention = contention_ ? &*contention_ : nullptr}) {}

simulate::SteadyRuns::Run ModelRuns::run(std::span<const Ns> cost) {
  const simulate::SteadyRuns::Run run = runs_.run(cost);
  const graph::Graph& g = run.graph;
  for (const graph::GraphLane& lane : g.lanes) {
    if (g.strings[lane.name] != kPeriodLane || lane.end - lane.begin < 2) continue;
    run.timeline.step = run.timeline.start[lane.end - 1] - run.timeline.start[lane.end - 2];
  }
  return run;
}

}  // namespace foretrace::whatif
