// Batches that other processes make. The main thread waits for them in the loader's range; that wait is not work. Where it determines
// the length of the step, the workers together make one batch per step, and continue while the step runs: a lane of their own, whose
// task of one step is waited for in the next.

#include <algorithm>

#include "graph/loading.hpp"
#include "graph/step_state.hpp"
#include "graph/task_row.hpp"

namespace foretrace::graph {

void find_loader_workers(StepState& s) {
  Graph& g = s.graph;
  if (s.options.alone || s.without(DependencyKind::kThread) || s.main == kNone) return;
  // Of each range the longest stretch is the wait; the others open what has come.
  std::vector<std::uint32_t> waits;
  const GraphLane& main = g.lanes.front();
  for (std::uint32_t t = main.begin; t < main.end; ++t) {
    if (g.kind[t] != TaskKind::kCpu || !s.waited_for_batch.contains(g.event[t].value)) continue;
    if (!waits.empty() && g.event[waits.back()] == g.event[t]) {
      if (g.cost[t] > g.cost[waits.back()]) waits.back() = t;
    } else {
      waits.push_back(t);
    }
  }
  Ns waited = 0;
  for (const std::uint32_t t : waits) waited += g.cost[t];
  const Ns window = s.end - s.begin;
  if (!is_loader_bound(waited, window)) return;
  GraphLane lane;
  lane.begin = static_cast<std::uint32_t>(g.size());
  lane.role = LaneRole::kLoaderWorkers;
  lane.name = g.strings.intern(kWorkersLaneName);
  g.lanes.push_back(lane);
  const StringId name = g.strings.intern("a batch from worker processes");
  for (const std::uint32_t t : waits) {
    g.kind[t] = TaskKind::kWait;
    g.cost[t] = 0;
    g.event[t] = EventId{};
    const std::uint32_t made = append_task(g, {.kind = TaskKind::kCpu,
                                               .cost = window / static_cast<Ns>(waits.size()),
                                               .lane = static_cast<std::uint32_t>(g.lanes.size() - 1),
                                               .name = name,
                                               .phase = Phase::kData});
    g.carried.push_back({{made, t, 0, kWhole, DependencyKind::kThread}, 1});
  }
  g.lanes.back().end = static_cast<std::uint32_t>(g.size());
  g.periodic = true;
}

void mark_loader_waits(Graph& g) {
  const std::uint32_t workers = workers_lane(g);
  for (const CarriedDependency& c : g.carried) {
    if (g.lane[c.dependency.from] == workers) g.phase[c.dependency.to] = Phase::kData;
  }
}

std::uint32_t workers_lane(const Graph& g) {
  for (std::uint32_t l = 0; l < g.lanes.size(); ++l) {
    if (g.lanes[l].role == LaneRole::kLoaderWorkers) return l;
  }
  return kNone;
}

}  // namespace foretrace::graph
