#include "whatif/rewrite/grad_scaler.hpp"

#include <algorithm>
#include <cmath>

#include "hardware/cost.hpp"
#include "whatif/dataflow/backward_end.hpp"
#include "whatif/rewrite/optimizer.hpp"

namespace foretrace::whatif {

using work::Work;

void insert_grad_scaler(Model& m, Draft& draft, std::uint32_t last_backward) {
  const Graph& g = m.graph;
  const std::uint32_t join = end_of_backward(g);
  // Gradients another thread computes behind that (a second pass) are not checked here.
  const bool known = join != kNone && last_backward != kNone;
  const std::uint32_t behind = known ? first_behind(g, join)[g.lane[last_backward]] : 0;
  if (!known || behind == g.lanes[g.lane[last_backward]].begin) {
    m.not_modelled.emplace_back("the gradient scaler's synchronisation");
    return;
  }
  const Work work = work::optimizer_work(m.parameter_elements, 4, 4, std::max<std::int64_t>(2, m.parameter_tensors));
  const hardware::Cost cost = predict(work, m.device);
  const double launches =
      list_launches(1, static_cast<double>(m.parameter_tensors), static_cast<double>(m.parameter_elements));
  const Ns launch = m.cpu_time(m.host.op_us, host::CpuPhase::kOptimizer);
  std::uint32_t cpu = draft.insert_cpu(join, "gradient scaler",
                                       m.cpu_time(m.host.scaler_us, host::CpuPhase::kOptimizer), Phase::kOptimizer);
  std::uint32_t gpu = std::min(last_backward, behind - 1);
  for (int i = 0; i < static_cast<int>(launches); ++i) {
    gpu = draft.insert({.name = "unscale and check gradients",
                        .cost = static_cast<Ns>(cost.ns / launches),
                        .phase = Phase::kOptimizer,
                        .after_gpu = gpu,
                        .after_cpu = cpu,
                        .cpu_cost = launch});
    cpu = gpu - 1;
  }
  draft.insert_read_back({.cpu = cpu, .gpu = gpu}, "found_inf.item()");
}

}  // namespace foretrace::whatif
