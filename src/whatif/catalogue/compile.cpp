#include <algorithm>
#include <unordered_map>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/compiled_calls.hpp"
#include "whatif/catalogue/compiled_memory.hpp"
#include "whatif/catalogue/fusion.hpp"
#include "whatif/catalogue/layer_regions.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

using work::Dtype;
using work::Family;
using work::Work;

}  // namespace

double time_of(const Generated& k, const hardware::Device& d) {
  const double rate = d.streaming_gbs() * 0.87;
  const double arithmetic = 67.0 / std::max(1.0, d.tflops_fp32);
  double ns = 0;
  if (k.any()) ns += 1300 + std::max(k.bytes / rate, k.slow * 1.95e-3 * arithmetic) + k.random * 3e-3 * arithmetic;
  if (k.statistics > 0) ns += 1300 + k.statistics / (rate * 0.5);
  if (k.columns > 0) ns += 1300 + k.columns / rate;
  return ns + k.finishing * 2200.0;
}

namespace {

void run_together(Model& m, Draft& draft, const std::vector<Row>& rows, const std::vector<std::uint32_t>& of,
                  const Generated& kernel, Selection& gone) {
  if (of.empty()) return;
  double all = 0;
  std::uint32_t largest = of.front();
  for (const std::uint32_t r : of) {
    all += static_cast<double>(rows[r].time);
    if (rows[r].time > rows[largest].time) largest = r;
  }
  for (const std::uint32_t r : of) {
    if (r != largest) gone.insert(gone.end(), rows[r].tasks.begin(), rows[r].tasks.end());
  }
  double time = kernel.any() ? time_of(kernel, m.device) : all;
  time = std::min(time, 1.7 * all);
  Work fused = m.works[rows[largest].work];
  fused.become(Family::kElementwise);
  set_row(m, draft, rows[largest], time, fused, graph::Origin::kModelled);
}

// The forward and the backward pass each become a CUDA graph: one call where every kernel had its own.
void graph_the_passes(Model& m, Draft& draft) {
  constexpr Ns kGraphLaunch = 40'000;
  const Graph& g = m.graph;
  for (const Phase phase : {Phase::kForward, Phase::kBackward}) {
    const Selection cpu = draft.select({.phase = phase, .where = [&](std::uint32_t t) {
                                          return g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall;
                                        }});
    if (cpu.empty()) continue;
    draft.set(cpu, 0);
    draft.set(cpu.front(), kGraphLaunch);
  }
  m.not_modelled.emplace_back("compile:mode=reduce-overhead is not validated against measurements");
}

Status apply_compile(Model& m, Draft& draft, const Parameters& parameters) {
  if (m.device.bandwidth_gbs <= 0) return fail(ErrorCode::kDeclined, "the GPU's memory bandwidth is unknown");
  const Graph& g = m.graph;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == TaskKind::kKernel && g.task_name(t).starts_with("triton_") &&
        g.task_name(t).find("_fused_") != std::string_view::npos) {
      return fail(ErrorCode::kDeclined, "the step already runs kernels of torch.compile");
    }
  }
  const std::vector<Row> rows = rows_of(m, draft);
  std::vector<std::uint32_t> region(rows.size(), 0);
  if (const std::vector<std::string> layers = parameters.list("layers"); !layers.empty()) {
    if (parameters.text("mode") != "default") {
      return fail(ErrorCode::kDeclined, "regions are modelled in torch.compile's default mode only");
    }
    const std::shared_ptr<const Dataflow> shared = shared_flow(m);
    const Dataflow& flow = *shared;
    FORETRACE_TRY(const LayerRegions regions, choose_regions(m, flow, layers));
    for (std::size_t i = 0; i < rows.size(); ++i)
      region[i] = regions.of(g, flow, m.works[rows[i].work].op_event, rows[i].tasks.front());
  }
  const std::shared_ptr<const Dataflow> shared = shared_flow(m);
  const FusionPlan plan = plan_fusion(m, rows, *shared, region);
  if (std::none_of(plan.fused.begin(), plan.fused.end(), [](const Fused& f) { return f.forward_rows.size() > 1; })) {
    return fail(ErrorCode::kDeclined, "no two element-wise or normalisation operations follow each other");
  }
  Selection gone;
  if (getenv("FT_DEBUG")) {
    double all[2] = {}, now[2] = {};
    for (const Fused& f : plan.fused) {
      for (int b = 0; b < 2; ++b) {
        double eager = 0;
        for (auto r : b ? f.backward_rows : f.forward_rows) eager += rows[r].time;
        const Generated& k = b ? f.backward : f.forward;
        std::string names;
        for (auto u : f.units) names += std::string(shared->units[u].name.substr(6)) + " ";
        fprintf(stderr, "%s eager %.1f rows %zu now %.1f MB %.1f rand %.1f slow %.1f stat %.1f col %.1f fin %u | %s\n", b ? "B" : "F", eager / 1e3,
                b ? f.backward_rows.size() : f.forward_rows.size(), time_of(k, m.device) / 1e3, k.bytes / 1e6, k.random / 1e6, k.slow/1e6, k.statistics / 1e6,
                k.columns / 1e6, k.finishing, names.substr(0, 120).c_str());
        all[b] += eager; now[b] += time_of(k, m.device);
      }
    }
    double ae = 0, an = 0;
    for (auto& [r, k] : plan.alone) { ae += rows[r].time; an += time_of(k, m.device);
      fprintf(stderr, "A %s %.1f now %.1f MB %.1f %s\n", rows[r].phase == Phase::kForward ? "F" : "B", rows[r].time / 1e3, time_of(k, m.device) / 1e3, k.bytes / 1e6, std::string(m.trace->strings[m.works[rows[r].work].op]).c_str()); }
    std::vector<char> seen(rows.size(), 0);
    for (auto& f : plan.fused) { for (auto r : f.forward_rows) seen[r] = 1; for (auto r : f.backward_rows) seen[r] = 1; }
    for (auto& [r, k] : plan.alone) seen[r] = 1;
    for (auto r : plan.calls) seen[r] = 1;
    for (std::size_t r = 0; r < rows.size(); ++r)
      if (!seen[r] && (rows[r].phase == Phase::kForward || rows[r].phase == Phase::kBackward))
        fprintf(stderr, "? %s %.1f %s %s\n", rows[r].phase == Phase::kForward ? "F" : "B", rows[r].time / 1e3, m.works[rows[r].work].op.valid() ? std::string(m.trace->strings[m.works[rows[r].work].op]).c_str() : "-", std::string(to_string(m.works[rows[r].work].family)).c_str());
    fprintf(stderr, "TOTAL F eager %.0f now %.0f B eager %.0f now %.0f alone eager %.0f now %.0f\n", all[0] / 1e3, now[0] / 1e3, all[1] / 1e3, now[1] / 1e3, ae / 1e3, an / 1e3);
  }
  keep_what_is_held(m, *shared, plan);
  for (const Fused& f : plan.fused) {
    run_together(m, draft, rows, f.forward_rows, f.forward, gone);
    run_together(m, draft, rows, f.backward_rows, f.backward, gone);
  }
  for (const auto& [r, kernel] : plan.alone) run_together(m, draft, rows, {r}, kernel, gone);
  Compiling c{.model = m, .draft = draft, .rows = rows, .flow = *shared, .region = region, .whole = parameters.list("layers").empty()};
  compile_attention(c);
  pad_products(c);
  move_channels(c);
  gone.insert(gone.end(), c.gone.begin(), c.gone.end());
  std::sort(gone.begin(), gone.end());
  // Fewer launches, but guards, wrappers and launches from Python instead: measured on CPU-bound steps, a compiled step's CPU
  // takes what the eager one's does (data/h200-search). `reduce-overhead` and `cuda-graph` are for that.
  draft.remove(gone, Draft::kTaskOnly);
  if (parameters.text("mode") == "reduce-overhead") graph_the_passes(m, draft);
  return {};
}

WhatIf compile_whatif() {
  return {.name = "compile",
          .about = "torch.compile: chains of element-wise operations and normalisations become one kernel each",
          .parameters = {{"mode", "of torch.compile", "default", {"default", "reduce-overhead"}},
                         {"layers",
                          "globs of modules, each compiled by itself, separated by |; the whole model when "
                          "not given"}},
          .assumes =
              "what is compiled compiles without graph breaks; products and convolutions keep their kernels; the "
              "loss and the update stay as they are",
          .source = "Ansel et al. 2024 (PyTorch 2); TVM and Tensor Comprehensions (Daydream's table)",
          .not_modelled = "max-autotune's choice of other kernels for products",
          .needs = {Need::kShapes},
          .changes = Changes::kCompilation,
          .parts = {.memory = Part::kModelled},
          .code = "model = torch.compile(model)",
          .effort = Effort::kLine,
          .stage = Stage::kRuntime,  // it fuses what the other changes leave
          .advise = {"compile"},
          .validated = true,
          .apply = apply_compile};
}

const Registered kRegistered(compile_whatif);

}  // namespace

}  // namespace foretrace::whatif
