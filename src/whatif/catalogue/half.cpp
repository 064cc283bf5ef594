#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/compiled.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/autocast_tasks.hpp"
#include "whatif/rewrite/fused_attention.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::whatif {
namespace {

using work::Dtype;

// Parameters, their gradients, the optimizer's state, activations and inputs: two bytes an element instead of four. Scratch memory follows the
// algorithm (resize_workspaces).
void halve_memory(Model& m) {
  memory::Curve& curve = *m.memory;
  for (memory::Block& block : curve.blocks) {
    if (!block.workspace) block.bytes /= 2;
  }
  curve.start_bytes -= (curve.parameter_bytes + curve.state_bytes) / 2;
  curve.parameter_bytes /= 2;
  curve.state_bytes /= 2;
  memory::recompute(curve);
}

// Every operation has inputs of the half type: nothing decides by itself what it computes in, and nothing is cast.
Status apply_half(Model& m, Draft& draft, const Parameters& parameters) {
  const bool bf16 = parameters.text("dtype") == "bf16";
  if ((bf16 ? m.device.tflops_bf16 : m.device.tflops_fp16) <= 0) {
    return fail(ErrorCode::kDeclined, "this GPU has no tensor cores for that type");
  }
  if (is_compiled(m)) {
    return fail(ErrorCode::kDeclined, "XLA compiles another program for another type; amp estimates it from this one");
  }
  const std::size_t works_before = m.works.size();
  std::size_t changed = 0;
  const Dtype dtype = bf16 ? Dtype::kBf16 : Dtype::kFp16;
  const std::vector<Row> rows = rows_of(m, draft);
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  FORETRACE_TRY_VOID(fuse_attentions(m, draft, *flow, fused_in_half(m, rows, *flow), dtype));
  for (const Row& row : rows) {
    if (!draft.removed(row.tasks.front()) && change_precision(m, draft, row, Precision::kHalf, dtype)) ++changed;
  }
  if (changed == 0) return fail(ErrorCode::kDeclined, "no operation of this step runs in FP32");
  m.parameter_element_bytes = 2;
  if (m.memory) halve_memory(m);
  resize_workspaces(m, works_before);
  return {};
}

std::string code_for(const Parameters& p, bool /*training*/) {
  const std::string type = p.text("dtype") == "bf16" ? "torch.bfloat16" : "torch.float16";
  return fmt::format("model.to({0}); inputs = inputs.to({0})  # before the optimizer is made", type);
}

const Registered kRegistered(
    {.name = "half",
     .about = "weights in half precision: model.half(), or a pure bf16 step",
     .parameters = {{"dtype", "the half type", "bf16", {"bf16", "fp16"}}},
     .assumes =
         "parameters, gradients, optimizer state and activations in the half type; no autocast, no gradient scaler",
     .source = "torch.nn.Module.to; PyTorch's kernels take the type of their inputs",
     .not_modelled = "whether the training still converges; what the program itself casts to FP32: norms, the softmax "
                     "and the logits of "
                     "Llama and GPT-2 (GPU time 9 to 18 % less than measured, memory 20 to 35 %)",
     .needs = {Need::kShapes},
     .changes = Changes::kPrecision,
     .parts = {.memory = Part::kModelled},
     .code = "model.to(torch.bfloat16); inputs = inputs.to(torch.bfloat16)  # before the optimizer is made",
     .code_for = code_for,
     .effort = Effort::kFewLines,
     .stage = Stage::kPrecision,
     .apply = apply_half,
     .already = if_step_has(&StepFacts::half_products, "the step already runs matrix products in half precision")});

}  // namespace
}  // namespace foretrace::whatif
