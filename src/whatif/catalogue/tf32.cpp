#include <fmt/format.h>

#include <algorithm>

#include "hardware/cost.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/rows.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::whatif {
namespace {

// Attention has no kernels in TF32, and one channel per group is no product: its kernels stay.
bool uses_tensor_cores(const work::Work& w) {
  return is_product(w) && w.family != work::Family::kAttention && !is_depthwise(w);
}

// PyTorch has a switch for products, which is off, and one for cuDNN's convolutions, which is on; NVIDIA's containers turn both on.
struct Chosen {
  bool products = true, convolutions = true;
  bool of(const work::Work& w) const { return w.family == work::Family::kGemm ? products : convolutions; }
};

Chosen chosen(const Parameters& p) {
  const std::string only = p.text("only");
  return {only != "convolutions", only != "products"};
}

// Time in which at least one of the row's kernels runs.
Ns busy_time(const Model& m, const Row& row) {
  std::vector<std::pair<Ns, Ns>> spans;
  for (const std::uint32_t t : row.tasks)
    spans.emplace_back(m.graph.measured[t], m.graph.measured[t] + m.graph.cost[t]);
  std::sort(spans.begin(), spans.end());
  Ns busy = 0;
  Ns end = spans.front().first;
  for (const auto& [from, to] : spans) {
    busy += std::max<Ns>(0, to - std::max(from, end));
    end = std::max(end, to);
  }
  return busy;
}

Status apply_tf32(Model& m, Draft& draft, const Parameters& parameters) {
  if (m.device.tflops_tf32 <= 0) return fail(ErrorCode::kDeclined, "this GPU has no TF32 tensor cores");
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  const Chosen wanted = chosen(parameters);
  std::size_t changed = 0;
  const std::size_t before = m.works.size();
  for (const Row& row : rows_of(m, draft)) {
    const work::Work work = m.works[row.work];
    if (!wanted.of(work)) continue;
    // A strict FP32 gradient may loop over groups on several streams. With TF32 other algorithms are allowed, none of them on
    // tensor cores: kernels that ran in parallel run one after another, in the time they took together.
    if (is_depthwise(work) && work.dtype == work::Dtype::kFp32 && !has->tf32_convolutions) {
      if (const Ns busy = busy_time(m, row); busy < row.time)
        set_row(m, draft, row, static_cast<double>(busy), with_dtype(work, work::Dtype::kTf32), graph::Origin::kScaled);
      continue;
    }
    if (!uses_tensor_cores(work) || work.dtype != work::Dtype::kFp32) continue;
    // Others of its kind run in TF32: the library chose FP32 for this one.
    if (work.family == work::Family::kGemm ? has->tf32_products : has->tf32_convolutions) continue;
    work::Work becomes = with_dtype(work, work::Dtype::kTf32);
    becomes.strict_ns = static_cast<double>(row.time) / times_run(m, row);
    const hardware::Cost cost = rescale_row(m, row, becomes);
    if (!cost.known) continue;
    set_row(m, draft, row, cost, becomes);
    ++changed;
  }
  if (changed == 0) {
    const std::string_view what = !wanted.convolutions ? "matrix product"
                                  : !wanted.products   ? "convolution"
                                                       : "matrix product or convolution";
    return fail(ErrorCode::kDeclined, fmt::format("no {} runs in strict FP32", what));
  }
  resize_workspaces(m, before);
  return {};
}

// PyTorch has two switches, one for products and one for cuDNN, which is on by default. What runs in strict FP32 next to the
// same kind in TF32 stays so: the library chose it.
std::string already_there(const Model& m, const Parameters& parameters) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  const Chosen wanted = chosen(parameters);
  if (!(wanted.products && has->tf32_products) && !(wanted.convolutions && has->tf32_convolutions)) return {};
  const bool left = std::any_of(m.works.rows.begin(), m.works.rows.end(), [&](const work::Work& w) {
    if (!is_product(w) || w.family == work::Family::kAttention || w.dtype != work::Dtype::kFp32) return false;
    if (!wanted.of(w)) return false;
    return w.family == work::Family::kGemm ? !has->tf32_products : !has->tf32_convolutions;
  });
  return left ? "" : "the step already runs its products and convolutions in TF32";
}

// A GPU without TF32 multiplies in FP32, as the trace does.
std::string idle_there(const hardware::Device& device) {
  return device.tflops_tf32 > 0 ? "" : device.name + " has no TF32: those products run in FP32 there";
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  const Chosen wanted = chosen(p.parameters);
  if (wanted.products) to.flags.push_back("    torch.set_float32_matmul_precision(\"high\")" + p.gain);
  if (wanted.convolutions)
    to.flags.push_back("    torch.backends.cudnn.allow_tf32 = True" + (wanted.products ? "" : p.gain));
}

std::string code_for(const Parameters& p, bool /*training*/) {
  const Chosen wanted = chosen(p);
  if (!wanted.convolutions) return "torch.backends.cuda.matmul.allow_tf32 = True";
  return wanted.products ? "" : "torch.backends.cudnn.allow_tf32 = True  # PyTorch's default";
}

const Registered kRegistered({.name = "tf32",
                              .about = "FP32 matrix products and convolutions run on tensor cores in TF32",
                              .parameters = {{"only",
                                              "what changes: both, as in NVIDIA's containers; convolutions alone, as "
                                              "PyTorch has it by default; or products alone",
                                              "both",
                                              {"both", "products", "convolutions"}}},
                              .assumes = "inputs stay FP32 in memory; only multiply-adds lose precision",
                              .source = "NVIDIA Ampere and later; torch.backends.cuda.matmul.allow_tf32",
                              .needs = {Need::kShapes},
                              .changes = Changes::kPrecision,
                              .code = "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True",
                              .jax_code = "jax.config.update(\"jax_default_matmul_precision\", \"tensorfloat32\")",
                              .code_for = code_for,
                              .effort = Effort::kLine,
                              .stage = Stage::kPrecision,
                              .advise = {"tf32"},
                              .validated = true,
                              .apply = apply_tf32,
                              .already = already_there,
                              .no_effect_on = idle_there,
                              .write_code = write_code,
                              .explains = {{Difference::kProductsInTf32}}});

}  // namespace
}  // namespace foretrace::whatif
