#include "whatif/rewrite/optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "base/saturate.hpp"
#include "hardware/cost.hpp"
#include "hardware/figures.hpp"
#include "hardware/multi_tensor.hpp"

namespace foretrace::whatif {

namespace {

// What all passes take on the GPU.
double update_ns(const Model& m, const UpdatePlan& plan) {
  const double elements = static_cast<double>(m.parameter_elements);
  const double each = plan.values_per_element * static_cast<double>(m.parameter_element_bytes);
  const double bytes = each * elements;
  if (plan.passes.size() == 1) {
    const double read = each * (plan.states + 2) / (2 * plan.states + 3);
    const hardware::Cost cost =
        hardware::predict(work::optimizer_work(m.parameter_elements, read, each - read, m.parameter_tensors), m.device);
    if (cost.known) return cost.ns;
  }
  return bytes / (m.device.bandwidth_gbs *
                  std::min(m.device.achievable_bandwidth, hardware::measured_figures(m.device).list_share));
}

bool is_scaler(const Model& m, std::uint32_t t) {
  return m.graph.op[t].valid() && m.trace->name(m.graph.op[t].index()).find("_amp_") != std::string_view::npos;
}

// What the update of today holds for a moment goes; over lists it holds as much for all parameters at once.
void replace_temporaries(memory::Curve& c, const UpdatePlan& plan) {
  std::erase_if(c.blocks, [](const memory::Block& b) {
    return b.stage == memory::Stage::kUpdate && b.kind == memory::Kind::kTemporary && b.freed != UINT32_MAX;
  });
  if (plan.held_copies <= 0 || c.update_from > c.positions) return;
  memory::add_blocks(c, {{.bytes = saturated(plan.held_copies * static_cast<double>(c.parameter_bytes)),
                          .allocated = c.update_from,
                          .freed = c.update_from + 1,
                          .stage = memory::Stage::kUpdate,
                          .workspace = true,
                          .of_parameters = true}});
}

}  // namespace

double list_launches(int lists, double tensors, double elements) {
  using namespace hardware::multi_tensor;
  const double most = kTensorsPerLaunch[static_cast<std::size_t>(std::clamp(lists, 1, 5) - 1)];
  const double chunks = elements / kChunk + tensors / 2;  // the last chunk of a tensor is half full on average
  return std::max({1.0, std::ceil(tensors / most), std::ceil(chunks / kBlocksPerLaunch)});
}

int states_of(const Model& model) {
  if (model.optimizer.find("SGD") == std::string::npos) return 2;
  for (std::size_t t = 0; t < model.graph.size(); ++t) {
    if (model.graph.phase[t] == Phase::kOptimizer && model.graph.op[t].valid() &&
        model.trace->name(model.graph.op[t].index()).find("mul_") != std::string_view::npos) {
      return 1;
    }
  }
  return 0;
}

Status replace_update(Model& m, Draft& draft, const UpdatePlan& plan) {
  const Graph& g = m.graph;
  const Selection kernels = draft.select({.gpu = true, .phase = Phase::kOptimizer, .where = [&](std::uint32_t t) {
                                            return g.kind[t] == TaskKind::kKernel && !is_scaler(m, t);
                                          }});
  if (kernels.empty()) return fail(ErrorCode::kDeclined, "the step shows no optimizer kernels");
  if (m.parameter_elements == 0) {
    return fail(ErrorCode::kDeclined, "the size of the parameters is unknown: the trace has no shapes of the update");
  }
  if (m.device.bandwidth_gbs <= 0) return fail(ErrorCode::kDeclined, "the GPU's memory bandwidth is unknown");
  const double tensors = static_cast<double>(m.parameter_tensors);
  const double elements = static_cast<double>(m.parameter_elements);
  double launches = plan.counts ? list_launches(1, tensors, tensors) : 0;
  for (const int lists : plan.passes) launches += list_launches(lists, tensors, elements);
  const int total = static_cast<int>(launches);
  if (static_cast<std::size_t>(total) >= kernels.size()) {
    return fail(ErrorCode::kDeclined, "the update already runs over many tensors at once");
  }

  // The update's CPU time: what is between its first and its last launch on that thread.
  const auto launched =
      std::find_if(kernels.begin(), kernels.end(), [&](std::uint32_t t) { return g.launch[t].valid(); });
  if (launched == kernels.end()) {
    return fail(ErrorCode::kDeclined, "the calls that launch the update are not in the trace");
  }
  const std::uint32_t first = *launched;
  const std::uint32_t first_call = g.launch[first].value;
  const std::uint32_t lane = g.lane[first_call];
  Selection cpu =
      draft.select({.phase = Phase::kOptimizer, .lane = lane, .where = [&](std::uint32_t t) {
                      return (g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall) && !is_scaler(m, t);
                    }});
  Place at{.cpu = first_call, .gpu = first > g.lanes[g.lane[first]].begin ? first - 1 : first};
  while (at.cpu > g.lanes[lane].begin && std::binary_search(cpu.begin(), cpu.end(), at.cpu)) --at.cpu;
  draft.remove(kernels, Draft::kWithLaunch);
  draft.remove(cpu);

  const double bytes = plan.values_per_element * static_cast<double>(m.parameter_element_bytes) * elements;
  const Ns each = static_cast<Ns>(update_ns(m, plan) / total);
  work::Work work(work::Family::kOptimizer);
  work.bytes_read = bytes / total;
  work.elements = static_cast<std::int64_t>(elements * static_cast<double>(plan.passes.size()) / launches);
  const std::uint32_t row = m.works.add(work);
  at.cpu =
      draft.insert_cpu(at.cpu, "optimizer bookkeeping",
                       m.cpu_time(plan.cpu_us_per_tensor, Phase::kOptimizer) * m.parameter_tensors, Phase::kOptimizer);
  for (int i = 0; i < total; ++i) {
    at = draft.insert({.name = plan.kernel,
                       .cost = each,
                       .phase = Phase::kOptimizer,
                       .layer = g.layer[first],
                       .after = at,
                       .cpu_cost = m.cpu_time(m.host.eager.op_us, Phase::kOptimizer),
                       .work = row});
  }
  if (m.memory) replace_temporaries(*m.memory, plan);
  return {};
}

}  // namespace foretrace::whatif
