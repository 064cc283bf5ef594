#include "whatif/parallel/in_step.hpp"

#include <cmath>

#include "hardware/shared_memory.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/rewrite/optimizer.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

bool communicates(const Graph& g) {
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    // Those that another change put there have no event.
    if (g.kind[t] == TaskKind::kCollective && g.event[t].valid()) return true;
  }
  return false;
}

namespace {

// All of these tasks together take at least so long.
void at_least(Draft& draft, const std::vector<std::uint32_t>& tasks, double now, double least) {
  if (now <= 0 || least <= now) return;
  for (const std::uint32_t t : tasks) {
    draft.set(t, static_cast<Ns>(static_cast<double>(draft.cost(t)) * (least / now)), graph::Origin::kScaled);
  }
}

// Traces have no shapes of the lists of tensors that an update goes over: it reads parameters, gradients and states at least once, and
// writes parameters and states.
void update_in_step(const Model& m, Draft& draft, const hardware::Parts& parts) {
  const Graph& g = m.graph;
  std::vector<std::uint32_t> tasks;
  double now = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] != TaskKind::kKernel || g.phase[t] != Phase::kOptimizer || draft.removed(t)) continue;
    tasks.push_back(t);
    now += static_cast<double>(draft.cost(t));
  }
  const double values = 2 * states_of(m) + 3;
  const auto size = static_cast<double>(m.parameter_element_bytes);
  const work::Work update = work::optimizer_work(m.parameter_elements, values * size, 0, m.parameter_tensors);
  at_least(draft, tasks, now, hardware::least_in_step_ns(update, parts));
}

}  // namespace

double slowest_process(const Model& m, std::int64_t ranks) {
  return std::exp(expected_maximum(static_cast<int>(ranks)) * m.host.uncertainty.run_to_run);
}

void share_memory(const Model& m, Draft& draft, const hardware::Parts& parts) {
  for (const Row& row : rows_of(m, draft)) {
    const double least = hardware::least_in_step_ns(m.works[row.work], parts) * times_run(m, row);
    at_least(draft, row.tasks, static_cast<double>(row.time), least);
  }
  update_in_step(m, draft, parts);
}

void run_in_step(const Model& m, Draft& draft, int ranks) {
  if (m.interference || communicates(m.graph)) return;
  const hardware::Parts parts = hardware::parts_of_gpu(m.device);
  if (parts.count <= 1) return;
  share_memory(m, draft, parts);
  Query cpu;
  cpu.where = [&](std::uint32_t t) { return m.graph.kind[t] == TaskKind::kCpu || m.graph.kind[t] == TaskKind::kCall; };
  draft.scale(draft.select(cpu), slowest_process(m, ranks));
}

}  // namespace foretrace::whatif
