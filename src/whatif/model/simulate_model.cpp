#include "whatif/model/simulate_model.hpp"

#include <algorithm>

namespace foretrace::whatif {

namespace {

simulate::Contention contention_of(const Model& m) {
  simulate::Contention c;
  const std::size_t tasks = m.graph.size();
  c.beside_communication.assign(tasks,
                                static_cast<float>((1 - m.interference->sm_share) * (1 - m.interference->kernels)));
  c.beside_computation.assign(tasks, static_cast<float>(1 - m.interference->collective));
  for (const graph::GraphLane& lane : m.graph.lanes) {
    if (lane.link == 0) continue;
    c.link.resize(tasks, kNone);
    std::fill(c.link.begin() + lane.begin, c.link.begin() + lane.end, lane.link - 1);
    c.links = std::max(c.links, lane.link);
  }
  return c;
}

}  // namespace

ModelRuns::ModelRuns(const Model& model)
    : contention_(model.interference ? std::optional(contention_of(model)) : std::nullopt),
      runs_(model.graph, {.contention = contention_ ? &*contention_ : nullptr}) {}

simulate::SteadyRuns::Run ModelRuns::run(std::span<const Ns> cost) {
  const simulate::SteadyRuns::Run run = runs_.run(cost);
  if (const std::optional<Period> marked = period(run)) run.timeline.step = marked->end - marked->begin;
  return run;
}

std::optional<ModelRuns::Period> ModelRuns::period(const simulate::SteadyRuns::Run& run) {
  const graph::Graph& g = run.graph;
  std::optional<Period> found;
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.role != graph::LaneRole::kPeriodMarks || lane.end - lane.begin < 2) continue;
    found = {run.timeline.start[lane.end - 2], run.timeline.start[lane.end - 1]};
  }
  return found;
}

}  // namespace foretrace::whatif
