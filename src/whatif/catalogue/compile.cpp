#include <fmt/format.h>

#include <algorithm>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/dataflow/layer_regions.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/use_code.hpp"
#include "whatif/rewrite/compiling.hpp"

namespace foretrace::whatif {

namespace {

using work::Family;
using work::Work;

// The longest of the rows becomes the generated kernel, the others go.
void run_together(Compiling& c, const std::vector<std::uint32_t>& rows, const Generated& kernel) {
  if (rows.empty()) return;
  double all = 0;
  std::uint32_t longest = rows.front();
  for (const std::uint32_t r : rows) {
    all += static_cast<double>(c.rows[r].time);
    if (c.rows[r].time > c.rows[longest].time) longest = r;
  }
  for (const std::uint32_t r : rows) {
    if (r != longest) c.gone.insert(c.gone.end(), c.rows[r].tasks.begin(), c.rows[r].tasks.end());
  }
  const double runs = times_run(c.model, c.rows[longest]);
  const double time = kernel.any() ? runs * time_of(kernel, c.model.device) : all;
  Work fused = c.model.works[c.rows[longest].work];
  fused.become(Family::kElementwise);
  set_row(c.model, c.draft, c.rows[longest], time, fused, graph::Origin::kModelled);
  c.launches[c.rows[longest].phase == Phase::kForward ? 0 : 1] += runs * std::max(1U, kernel.kernels());
}

Status apply_compile(Model& m, Draft& draft, const Parameters& parameters) {
  if (m.device.bandwidth_gbs <= 0) return fail(ErrorCode::kDeclined, "the GPU's memory bandwidth is unknown");
  if (std::any_of(m.applied.begin(), m.applied.end(),
                  [](const Model::Applied& before) { return before.changes == Changes::kCompilation; }))
    return fail(ErrorCode::kDeclined, "a change before it compiles the step already");
  const std::string& mode = parameters.text("mode");
  if (mode == "max-autotune") {
    return fail(ErrorCode::kDeclined,
                "max-autotune times other kernels for every product and takes the fastest: this was not measured, so "
                "it cannot be predicted");
  }
  const std::vector<std::string> layers = parameters.list("layers");
  if (!layers.empty() && mode != "default")
    return fail(ErrorCode::kDeclined, "regions are modelled in torch.compile's default mode only");
  const std::vector<Row> rows = rows_of(m, draft);
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  std::vector<std::uint32_t> region(rows.size(), 0);
  if (!layers.empty()) {
    FORETRACE_TRY(const LayerRegions regions, choose_regions(m, *flow, layers));
    for (std::size_t i = 0; i < rows.size(); ++i)
      region[i] = regions.of(m.graph, *flow, m.works[rows[i].work].op_event, rows[i].tasks.front());
  }
  const FusionPlan plan = plan_fusion(m, rows, *flow, region);
  if (std::none_of(plan.fused.begin(), plan.fused.end(), [](const Fused& f) { return f.forward_rows.size() > 1; }))
    return fail(ErrorCode::kDeclined, "no two element-wise or normalisation operations follow each other");
  Compiling c{.model = m, .draft = draft, .rows = rows, .flow = *flow, .region = region, .whole = layers.empty()};
  retain_saved_tensors(m, *flow, plan);
  for (const Fused& f : plan.fused) {
    run_together(c, f.forward_rows, f.forward);
    run_together(c, f.backward_rows, f.backward);
  }
  for (const auto& [r, kernel] : plan.alone) run_together(c, {r}, kernel);
  for (const std::uint32_t r : plan.merged) c.gone.insert(c.gone.end(), rows[r].tasks.begin(), rows[r].tasks.end());
  for (const std::uint32_t r : plan.calls)
    c.launches[rows[r].phase == Phase::kForward ? 0 : 1] += static_cast<double>(rows[r].tasks.size());
  compile_attention(c);
  pad_products(c);
  move_channels(c);
  compile_host(c, plan, mode == "reduce-overhead");
  draft.remove(c.gone, Draft::kTaskOnly);  // what launched them is part of the compiled pass's time
  return {};
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  const std::string mode = p.parameters.text("mode");
  const std::string options = mode.empty() || mode == "default" ? "" : fmt::format("mode={}", python_literal(mode));
  if (const std::vector<std::string> layers = p.parameters.list("layers"); !layers.empty()) {
    each_named(p, layers, fmt::format("module.compile({})", options), to.regions, to);
  } else if (p.planned_buckets) {
    // One graph would hand over all gradients at its end. DistributedDataParallel cuts it at its buckets; for a plan of
    // one's own the blocks are compiled one by one.
    to.regions.push_back(
        fmt::format("    for block in repeated_blocks(model) or [model]:{}  Gradients come block by block.\n        "
                    "block.compile({})",
                    p.gain.empty() ? "  #" : p.gain + ".", options));
  } else {
    to.whole.push_back(fmt::format("    model.compile({}){}", options, p.gain));
  }
}

std::string code_for(const Parameters& p, bool training) {
  const std::string& mode = p.text("mode");
  const std::string layers = on_layers(p);
  if (mode == "default" && layers.empty()) return {};
  const std::string option = mode == "default" ? std::string() : fmt::format("mode='{}'", mode);
  if (!layers.empty()) return with_note(fmt::format("block.compile({})", option), layers);
  return with_note(fmt::format("model = torch.compile(model, {})", option),
                   training ? std::string() : "and with torch.inference_mode(): model(x)");
}

const Registered kRegistered(
    {.name = "compile",
     .about =
         "torch.compile: operations between matrix products are fused into few kernels, launched from generated code",
     .parameters = {{"mode", "of torch.compile", "default", {"default", "reduce-overhead", "max-autotune"}},
                    {"layers",
                     "globs of modules, each compiled by itself, separated by |; the whole model when "
                     "not given"}},
     .assumes =
         "what is compiled compiles without graph breaks and is not compiled again; the loss and the update stay as "
         "they are",
     .source = "Ansel et al. 2024 (PyTorch 2); TVM and Tensor Comprehensions (Daydream's table)",
     .not_modelled = "max-autotune's choice of other kernels for products",
     .needs = {Need::kShapes},
     .changes = Changes::kCompilation,
     .parts = {.memory = Part::kModelled},
     .code = "model = torch.compile(model)",
     .inference_code = "model = torch.compile(model)  # and with torch.inference_mode(): model(x)",
     .code_for = code_for,
     .effort = Effort::kLine,
     .stage = Stage::kRuntime,  // it fuses what the other changes leave
     .advise = {"compile"},
     .validated = true,
     .apply = apply_compile,
     .already = if_step_has(&StepFacts::compiled, "the step already runs kernels of torch.compile"),
     .whole_program = "the step is a compiled program already: XLA has fused it",
     .write_code = write_code,
     .unvalidated = {"mode=reduce-overhead"}});

}  // namespace
}  // namespace foretrace::whatif
