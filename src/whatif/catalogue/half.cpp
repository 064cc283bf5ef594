#include <fmt/format.h>

#include <algorithm>

#include "hardware/cost.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/compiled.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/autocast_tasks.hpp"
#include "whatif/rewrite/fused_attention.hpp"
#include "whatif/rewrite/half_program.hpp"
#include "work/op_view.hpp"

namespace foretrace::whatif {
namespace {

using work::Dtype;
using work::Work;

// A pass of the update over lists of tensors: the profiler leaves long lists out. Each holds all parameters, or one value for each of
// their elements.
Work with_lists(const Model& m, Work work) {
  if (work.family != work::Family::kOptimizer || work.elements > 0 || work.op_event == kNone) return work;
  const work::OpView view(*m.trace, m.trace->events.args[work.op_event]);
  const auto lists =
      std::count_if(view.arguments().begin(), view.arguments().end(), [](const work::Argument& a) { return a.list(); });
  const auto size = static_cast<double>(work::bytes_of(work.dtype));
  return work::optimizer_work(m.parameter_elements, static_cast<double>(lists) * size, size, m.parameter_tensors);
}

bool change_lists(Model& m, Draft& draft, const Row& row, const Work& work, Dtype dtype) {
  const Work becomes = with_dtype(work, dtype);
  const hardware::Cost cost = rescale(static_cast<double>(row.time), work, becomes, m.device);
  if (cost.known) set_row(m, draft, row, cost, becomes);
  return cost.known;
}

Status apply_half(Model& m, Draft& draft, const Parameters& parameters) {
  const bool bf16 = parameters.text("dtype") == "bf16";
  if ((bf16 ? m.device.tflops_bf16 : m.device.tflops_fp16) <= 0) {
    return fail(ErrorCode::kDeclined, "this GPU has no tensor cores for that type");
  }
  if (is_compiled(m)) {
    return fail(ErrorCode::kDeclined, "XLA compiles another program for another type; amp estimates it from this one");
  }
  const Dtype dtype = bf16 ? Dtype::kBf16 : Dtype::kFp16;
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  FORETRACE_TRY_VOID(fuse_attentions(m, draft, *flow, fused_in_half(m, rows_of(m, draft), *flow), dtype));
  Autocast types = half_program(*flow, dtype, HalfParameters::kKept);
  const std::size_t changed = write_types(m, draft, types, dtype, [&](const Row& row) {
    const Work work = m.works[row.work];
    if (const Work listed = with_lists(m, work); listed.elements != work.elements)
      return change_lists(m, draft, row, listed, dtype);
    return change_precision(m, draft, row, Precision::kHalf, dtype);
  });
  if (changed == 0) return fail(ErrorCode::kDeclined, "no operation of this step runs in FP32");
  m.parameter_element_bytes = 2;
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
         "parameters, gradients, optimizer state, inputs and activations in the half type, but for what the program "
         "itself converts to FP32; no autocast, no gradient scaler",
     .source = "torch.nn.Module.to; PyTorch's kernels take the type of their inputs",
     .not_modelled =
         "whether the training still converges; conversions that the program makes of half tensors only (T5's "
         "norms)",
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
