#include <fmt/core.h>

#include <algorithm>

#include "hardware/figures.hpp"
#include "host/recorded_parts.hpp"
#include "trace/latencies.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/allocator_calls.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/use_code.hpp"
#include "whatif/rewrite/graph_regions.hpp"

namespace foretrace::whatif {
namespace {

Status apply_cuda_graph(Model& m, Draft& draft, const Parameters& parameters) {
  if (const std::vector<std::string> layers = parameters.list("layers"); !layers.empty())
    return graph_regions(m, draft, layers);
  const Graph& g = m.graph;
  // Behind a stream's first captured task, work whose launch the trace does not show is part of the same stretch.
  std::vector<char> begun(g.lanes.size(), 0);
  const auto captured = [&](std::uint32_t t) {
    if (!graph::is_gpu(g.kind[t]) || g.phase[t] == Phase::kData) return false;
    if (g.launch[t].valid()) begun[g.lane[t]] = 1;
    return begun[g.lane[t]] != 0;
  };
  const Selection kernels = draft.select({.where = captured});
  if (kernels.empty()) return fail(ErrorCode::kDeclined, "no kernel is launched in this step");
  if (std::any_of(kernels.begin(), kernels.end(),
                  [&](std::uint32_t t) { return g.kind[t] == TaskKind::kCollective; })) {
    m.not_modelled.emplace_back("collectives inside a CUDA graph");
  }

  // On the CPU remain the loading of data, work of the program's own (a stretch too long to be a launch's), its allocator, the copies of the
  // batch, one launch, and the wait at the end. What another change put there (a scheme's hooks) is captured with the launches.
  const std::uint32_t main = g.main_lane;
  std::uint32_t last_wait = kNone;
  for (std::uint32_t t = g.lanes[main].begin; t < g.lanes[main].end; ++t) {
    if (g.kind[t] == TaskKind::kWait && g.event[t].valid()) last_wait = t;
  }
  std::vector<char> keep(g.size(), 0);
  std::uint32_t anchor = g.lanes[main].begin;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    const bool own =
        g.kind[t] == TaskKind::kCpu && g.origin[t] != graph::Origin::kModelled && g.cost[t] >= host::kLongestStretch;
    if (!graph::is_gpu(g.kind[t]) && (own || is_allocator_call(g, t) || g.phase[t] == Phase::kData)) keep[t] = 1;
    if (graph::is_gpu(g.kind[t]) && g.launch[t].valid() && g.phase[t] == Phase::kData) {
      keep[g.launch[t].index()] = 1;
      if (g.task_name(t).find("HtoD") != std::string_view::npos && g.lane[g.launch[t].index()] == main) {
        anchor = std::max(anchor, g.launch[t].value);
      }
    }
  }
  // A graph cannot begin behind a copy that waits for what the graph computes.
  for (const std::uint32_t t : kernels) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      const std::uint32_t to = g.dep_to[d];
      if (g.lane[to] == main && to <= anchor && g.dep_kind[d] == DependencyKind::kSync) {
        return fail(ErrorCode::kDeclined,
                    fmt::format("in the middle of the step the CPU waits for the GPU ({}) and then copies a batch: "
                                "that cannot be captured as one graph",
                                g.task_name(to)));
      }
    }
  }
  for (const std::uint32_t t : kernels) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      const std::uint32_t to = g.dep_to[d];
      const bool waits = g.dep_kind[d] == DependencyKind::kStreamWait || g.dep_kind[d] == DependencyKind::kGraph;
      if (waits && graph::is_gpu(g.kind[to]) && g.phase[to] == Phase::kData) {
        return fail(
            ErrorCode::kDeclined,
            fmt::format("in the middle of the step a copy of data ({}) waits for the GPU's work: that cannot be "
                        "captured as one graph",
                        g.task_name(to)));
      }
    }
  }
  const Selection cpu = draft.select({.where = [&](std::uint32_t t) {
    if (graph::is_gpu(g.kind[t]) || g.kind[t] == TaskKind::kBegin || keep[t] != 0) return false;
    if (g.lane[t] == main && last_wait != kNone && t + 1 >= last_wait) return false;
    return g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall || g.kind[t] == TaskKind::kWait;
  }});
  const std::uint32_t call = draft.insert_cpu(anchor, "cudaGraphLaunch",
                                              graph_launch_time(m, kernels.size(), Phase::kForward), Phase::kForward);
  draft.remove(cpu);
  const Ns latency = graph_latency(m, Phase::kForward);
  std::size_t update = 0;
  std::uint32_t last_update = kNone;
  for (const std::uint32_t t : kernels) {
    draft.set_launch(t, call, latency);
    draft.set_lane_lag(t, std::min(g.lane_lag[t], m.latencies->graph_gap));
    if (g.phase[t] == Phase::kOptimizer && g.kind[t] == TaskKind::kKernel) {
      ++update;
      last_update = t;
    }
  }
  // Communication that the removed calls started is part of the graph, too: it begins no earlier than that.
  const auto is_captured = [&](std::uint32_t t) { return std::binary_search(kernels.begin(), kernels.end(), t); };
  for (const std::uint32_t t : cpu) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      const std::uint32_t to = g.dep_to[d];
      if (g.dep_kind[d] != DependencyKind::kLaunch || g.phase[to] == Phase::kData || is_captured(to)) continue;
      draft.depend(call, to, latency, DependencyKind::kLaunch);
    }
  }
  // An update of a kernel per tensor and step must keep its counters on the GPU to be captured.
  if (last_update != kNone && static_cast<std::int64_t>(update) > 2 * m.parameter_tensors && m.parameter_tensors > 0) {
    const auto extra =
        static_cast<std::size_t>(hardware::measured_figures(m.device).capturable_kernels * static_cast<double>(update));
    Place at{.cpu = call, .gpu = last_update};
    for (std::size_t i = 0; i < extra; ++i) {
      at = draft.insert({.name = "capturable update",
                         .cost = m.latencies->short_kernel,
                         .phase = Phase::kOptimizer,
                         .after = at,
                         .launch_of = call});
      draft.set_lane_lag(at.gpu, m.latencies->graph_gap);
    }
  }
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  if (const std::vector<std::string> layers = p.parameters.list("layers"); !layers.empty()) {
    each_named(p, layers, "played_from_graphs(module)", to.regions, to);
    return;
  }
  to.captured = true;
  to.step.push_back("    # cuda-graph: make_step records this step and plays it" +
                    (p.gain.empty() ? "" : "," + p.gain.substr(3)));
  to.optimizer.emplace_back("    if tensors_of(parameters)[0].is_cuda:\n        options = recordable(cls, options)");
}

std::string code_for(const Parameters& p, bool /*training*/) {
  const std::string layers = on_layers(p);
  return layers.empty() ? layers : with_note("block = torch.cuda.make_graphed_callables(block, (x,))", layers);
}

const Registered kRegistered(
    {.name = "cuda-graph",
     .about = "the whole step is captured once and launched as one CUDA graph, or some modules as graphs of their own",
     .parameters =
         {{"layers",
           "globs of modules, each replayed from its own graphs, separated by |; the whole step when not given"}},
     .assumes = "static shapes, no work on the CPU in what is captured; a loop optimizer is made capturable",
     .source = "CUDA graphs; torch.cuda.graph, torch.cuda.make_graphed_callables",
     .not_modelled = "memory of the graph's private pool",
     .changes = Changes::kLaunches,
     .parts = {.memory = Part::kNotModelled},
     .code = "g = torch.cuda.CUDAGraph(); with torch.cuda.graph(g): train_step()",
     .inference_code = "with torch.inference_mode(), torch.cuda.graph(torch.cuda.CUDAGraph()): y = model(x)",
     .code_for = code_for,
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .advise = {"cuda-graph"},
     .validated = true,
     .apply = apply_cuda_graph,
     .already = if_step_has(&StepFacts::graphed, "the step already runs as a CUDA graph"),
     .whole_program =
         "XLA decides itself what runs as a CUDA graph (its command buffers): --xla_gpu_enable_command_buffer",
     .write_code = write_code,
     .unvalidated = {"layers"}});

}  // namespace
}  // namespace foretrace::whatif
