#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/compiled.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/precision_memory.hpp"
#include "whatif/rewrite/rows.hpp"
#include "whatif/rewrite/workspaces.hpp"

namespace foretrace::whatif {
namespace {

using work::Dtype;
using work::Family;
using work::Work;

// From TF32, and for a compiled program from half precision, to FP32: the reverse of tf32 and amp.
class FullPrecision {
 public:
  FullPrecision(Model& m, Draft& draft, Dtype products) : m_(m), draft_(draft), products_(products) {}

  Status run() {
    const std::size_t works_before = m_.works.size();
    const bool half = step_facts(m_)->half_products;
    if (half && !is_compiled(m_)) {
      return fail(ErrorCode::kDeclined,
                  "the program decides which tensors this step keeps in half precision, not a switch",
                  "record the step in FP32, and ask for amp or half");
    }
    std::size_t changed = 0;
    for (const Row& row : rows_of(m_, draft_)) changed += change(row) ? 1 : 0;
    if (changed == 0) return fail(ErrorCode::kDeclined, "every product of this step already has that precision");
    draft_.remove(gone_, Draft::kWithLaunch);
    if (half) m_.not_modelled.emplace_back("XLA compiles another program for another type, with other fusions");
    if (half && m_.memory) full_program_memory(m_);
    resize_workspaces(m_, works_before);
    return {};
  }

 private:
  bool change(const Row& row) {
    const Work work = m_.works[row.work];
    const bool passes = row.phase == Phase::kForward || row.phase == Phase::kBackward;
    const bool multiplies = is_product(work) && work.family != Family::kAttention;
    if (!passes || !work.has_shape() || work.family == Family::kCommunication) return false;
    if (work.dtype == Dtype::kTf32)
      return multiplies && products_ == Dtype::kFp32 && set(row, with_dtype(work, products_));
    if (!work::is_half(work.dtype) && !work::is_half(work.out_dtype)) return false;
    if (work.family == Family::kCopy && work::is_half(work.dtype) != work::is_half(work.out_dtype)) {
      gone_.insert(gone_.end(), row.tasks.begin(), row.tasks.end());  // a conversion
      return true;
    }
    return set(row, widened(work, multiplies ? products_ : Dtype::kFp32));
  }

  // Sums of half values may be FP32 already, and results of FP32 ones half.
  static Work widened(const Work& work, Dtype dtype) {
    if (work::is_half(work.dtype)) {
      Work w = with_dtype(work, dtype);
      if (work::is_half(w.out_dtype)) w.out_dtype = Dtype::kFp32;
      return w;
    }
    Work w = work;
    w.out_dtype = Dtype::kFp32;
    w.bytes_written = w.fixed_written + 2 * (w.bytes_written - w.fixed_written);
    return w;
  }

  bool set(const Row& row, const Work& becomes) {
    const hardware::Cost cost = rescale_row(m_, row, becomes);
    if (cost.known) set_row(m_, draft_, row, cost, becomes);
    return cost.known;
  }

  Model& m_;
  Draft& draft_;
  Dtype products_;
  Selection gone_;
};

Status apply_fp32(Model& m, Draft& draft, const Parameters& parameters) {
  const bool tf32 = parameters.text("products") != "strict";
  if (tf32 && m.device.tflops_tf32 <= 0) return fail(ErrorCode::kDeclined, "this GPU has no TF32 tensor cores");
  return FullPrecision(m, draft, tf32 ? Dtype::kTf32 : Dtype::kFp32).run();
}

std::string code_for(const Parameters& p, bool /*training*/) {
  return p.text("products") != "strict"
             ? "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True"
             : "";
}

const Registered kRegistered(
    {.name = "fp32",
     .about = "the reverse of tf32 and amp: products in FP32 instead of TF32, a compiled program in FP32 instead of "
              "half precision",
     .parameters = {{"products",
                     "what products and convolutions compute in: strict FP32, or TF32",
                     "strict",
                     {"strict", "tf32"}}},
     .assumes = "tensors are FP32 in memory, and the update stays as it is",
     .source = "the models of tf32 and amp, in reverse",
     .not_modelled = "algorithms of several kernels that strict FP32 may use: their time, not their launches; what "
                     "autotuning (cudnn.benchmark) finds, and its workspaces",
     .needs = {Need::kShapes},
     .changes = Changes::kPrecision,
     .parts = {.memory = Part::kModelled},
     .code = "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False",
     .jax_code = "jax.config.update(\"jax_default_matmul_precision\", \"highest\")  # and parameters stay float32",
     .code_for = code_for,
     .effort = Effort::kLine,
     .stage = Stage::kPrecision,
     .apply = apply_fp32});

}  // namespace
}  // namespace foretrace::whatif
