#include <algorithm>

#include "whatif/catalogue/batch_scaling.hpp"
#include "whatif/catalogue/catalogue.hpp"

namespace foretrace::whatif {

namespace {

// The last wait of the main thread for another thread: backward is over.
std::uint32_t end_of_backward(const Graph& g) {
  std::uint32_t found = Graph::kNoWork;
  for (std::uint32_t t = g.lanes[g.main_lane].begin; t < g.lanes[g.main_lane].end; ++t) {
    if (g.kind[t] == TaskKind::kWait && !g.event[t].valid()) found = t;
  }
  return found;
}

bool computes_gradients(Phase p) { return p == Phase::kForward || p == Phase::kBackward; }

Status apply_accumulate(Model& m, Draft& draft, const Parameters& parameters) {
  const Graph& g = m.graph;
  const int n = static_cast<int>(parameters.number("n"));
  const std::uint32_t join = end_of_backward(g);
  if (join == Graph::kNoWork)
    return fail(ErrorCode::kDeclined, "the step shows no backward pass on a thread of its own");
  scale_batch(m, draft, 1.0 / n);
  if (m.memory) {  // from the second pass on, all gradients are there throughout
    for (memory::Block& b : m.memory->blocks) {
      if (b.kind == memory::Kind::kGradient) b.allocated = 0;
    }
  }

  // One more forward and backward pass: their GPU work, the main thread up to the end of backward, the autograd thread.
  std::uint32_t first_forward = join;
  for (std::uint32_t t = join; t > g.lanes[g.main_lane].begin; --t) {
    if (g.phase[t] == Phase::kForward && g.kind[t] != TaskKind::kWait) first_forward = t;
  }
  const Selection pass = draft.select({.where = [&](std::uint32_t t) {
    if (g.kind[t] == TaskKind::kCollective) return moves_samples(g.task_name(t));
    if (graph::is_gpu(g.kind[t])) return computes_gradients(g.phase[t]) && g.kind[t] != TaskKind::kMemcpy;
    if (g.lane[t] == g.main_lane) return t >= first_forward && t <= join && g.phase[t] != Phase::kOptimizer;
    return g.phase[t] == Phase::kBackward;
  }});
  std::vector<std::uint32_t> behind;
  std::vector<std::uint32_t> last(g.lanes.size(), Graph::kNoWork);
  for (const std::uint32_t t : pass) last[g.lane[t]] = t;
  // What the main thread waits for up to there, and what was launched by then, stays in front of the second pass, also
  // where it is not repeated (copies, collectives and the thread's work for them).
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    std::uint32_t& end = last[g.lane[t]];
    if (end == Graph::kNoWork || g.lane[t] == g.main_lane || t <= end) continue;
    const TaskId call = graph::is_gpu(g.kind[t]) ? g.launch[t] : TaskId{};
    bool first_pass = call.valid() && (g.lane[call.index()] != g.main_lane || call.value <= join);
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1] && !first_pass; ++d) {
      first_pass = g.lane[g.dep_to[d]] == g.main_lane && g.dep_to[d] <= join;
    }
    if (first_pass) end = t;
  }
  for (const std::uint32_t t : last) {
    if (t != Graph::kNoWork) behind.push_back(t);
  }
  for (int i = 1; i < n; ++i) {
    const std::vector<std::uint32_t> copies = draft.clone(pass, behind);
    std::fill(last.begin(), last.end(), Graph::kNoWork);
    for (std::size_t k = 0; k < pass.size(); ++k) last[g.lane[pass[k]]] = copies[k];
    behind.clear();
    for (const std::uint32_t t : last) {
      if (t != Graph::kNoWork) behind.push_back(t);
    }
    // From the second pass on each gradient is added to what is there: read twice, written once.
    const double bytes = 12.0 * static_cast<double>(m.parameter_elements);
    const std::int64_t tensors = m.parameter_tensors;
    if (tensors == 0 || m.device.bandwidth_gbs <= 0) continue;
    std::uint32_t gpu = Graph::kNoWork;
    std::uint32_t cpu = Graph::kNoWork;
    for (std::size_t k = 0; k < pass.size(); ++k) {
      if (graph::is_gpu(g.kind[pass[k]]) && g.phase[pass[k]] == Phase::kBackward) gpu = copies[k];
      if (!graph::is_gpu(g.kind[pass[k]]) && g.lane[pass[k]] != g.main_lane) cpu = copies[k];
    }
    if (gpu == Graph::kNoWork || cpu == Graph::kNoWork) continue;
    const Ns each = 1500 + static_cast<Ns>(bytes / (m.device.bandwidth_gbs * 0.85) / static_cast<double>(tensors));
    for (std::int64_t k = 0; k < tensors; ++k) {
      draft.insert({.name = "gradient accumulation",
                    .cost = each,
                    .phase = Phase::kBackward,
                    .after_gpu = gpu,
                    .after_cpu = cpu,
                    .cpu_cost = m.launches.cpu_per_launch[1] / 2});
    }
  }
  return {};
}

}  // namespace

WhatIf accumulate_whatif() {
  return {.name = "accumulate",
          .about = "the same batch in n parts, gradients added up before the update",
          .parameters = {{"n", "number of parts", "2", {}, ParameterType::kNumber, false, 1}},
          .assumes = "parts of equal size",
          .source = "gradient accumulation",
          .not_modelled = {},
          .needs = {},
          .code = "for part in batch.chunk(n): (loss_fn(model(part)) / n).backward()",
          .effort = Effort::kFewLines,
          .stage = Stage::kBatch,
          .advise = {"accumulate:n=2"},
          .validated = true,
          .apply = apply_accumulate};
}

}  // namespace foretrace::whatif
