#include "whatif/model/simulate_model.hpp"

#include <algorithm>

#include "hardware/contention.hpp"
#include "trace/latencies.hpp"

namespace foretrace::whatif {

namespace {

// The speed of a kernel on the SMs that a collective leaves it: by its grid, where it was recorded.
double on_sms_left(const Model& m, std::uint32_t t, int taken, Ns cost, const work::Work* work) {
  if (m.graph.kind[t] != graph::TaskKind::kKernel) return 1;
  const EventId event = m.graph.event[t];
  const trace::KernelLaunch* launch = m.trace != nullptr && event.valid() ? m.trace->launch(event.index()) : nullptr;
  if (launch == nullptr) return 1 - static_cast<double>(taken) / std::max(1, m.device.sm_count);
  hardware::LaunchedKernel kernel{.name = m.graph.task_name(t),
                                  .blocks = launch->grid[0] * launch->grid[1] * launch->grid[2],
                                  .us = static_cast<double>(cost) / 1e3,
                                  .begin_us = static_cast<double>(m.latencies->short_kernel) / 1e3};
  if (work != nullptr) {
    if (const auto* product = std::get_if<work::Gemm>(&work->kind); product != nullptr && product->batch == 1) {
      kernel.rows = product->m;
      kernel.columns = product->n;
    }
  }
  return hardware::speed_during_collective(kernel, m.device, taken);
}

}  // namespace

double speed_during_collective(const Model& model, std::uint32_t task, const Interference& collective) {
  return speed_during_collective(model, task, collective, model.graph.cost[task], model.works.of(task));
}

double speed_during_collective(const Model& model, std::uint32_t task, const Interference& collective, Ns cost,
                               const work::Work* work) {
  return (1 - collective.kernels) * on_sms_left(model, task, collective.sms, cost, work);
}

std::optional<simulate::Contention> contention_of(const Model& m) {
  if (!m.interference) return {};
  simulate::Contention c;
  const std::size_t tasks = m.graph.size();
  c.speed_in_communication.reserve(tasks);
  for (std::uint32_t t = 0; t < tasks; ++t) {
    c.speed_in_communication.push_back(static_cast<float>(speed_during_collective(m, t, *m.interference)));
  }
  c.speed_in_computation.assign(tasks, static_cast<float>(1 - m.interference->collective));
  for (const graph::GraphLane& lane : m.graph.lanes) {
    if (lane.link == 0) continue;
    c.link.resize(tasks, kNone);
    std::fill(c.link.begin() + lane.begin, c.link.begin() + lane.end, lane.link - 1);
    c.links = std::max(c.links, lane.link);
  }
  return c;
}

ModelRuns::ModelRuns(const Model& model)
    : contention_(contention_of(model)), runs_(model.graph, {.contention = contention_ ? &*contention_ : nullptr}) {}

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
