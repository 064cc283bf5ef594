#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/rows.hpp"
#include "whatif/catalogue/workspaces.hpp"

namespace foretrace::whatif {

namespace {

bool uses_tensor_cores(const hardware::Work& w) {
  using hardware::Family;
  // One channel per group is no product: its kernels stay.
  if (w.is_conv()) return w.groups == 1 || w.input[1] / w.groups > 2;
  return w.family == Family::kGemm || w.family == Family::kRnn;
}

Status apply_tf32(Model& m, Draft& draft, const Parameters&) {
  if (m.device.tflops_tf32 <= 0) return fail(ErrorCode::kDeclined, "this GPU has no TF32 tensor cores");
  std::size_t changed = 0;
  const std::size_t before = m.works.size();
  for (const Row& row : rows_of(m, draft)) {
    const hardware::Work work = m.works[row.work];
    if (!uses_tensor_cores(work) || work.dtype != hardware::Dtype::kFp32) continue;
    const hardware::Work becomes = with_dtype(work, hardware::Dtype::kTf32);
    const hardware::Cost cost = rescale(static_cast<double>(row.time), work, m.device, becomes, m.device);
    if (!cost.known) continue;
    set_row(m, draft, row, cost.ns, becomes, cost.origin);
    ++changed;
  }
  if (changed == 0) return fail(ErrorCode::kDeclined, "no matrix product or convolution runs in strict FP32");
  resize_workspaces(m, before);
  return {};
}

}  // namespace

WhatIf tf32_whatif() {
  return {.name = "tf32",
          .about = "FP32 matrix products and convolutions run on tensor cores in TF32",
          .parameters = {},
          .assumes = "inputs stay FP32 in memory; only multiply-adds lose precision",
          .source = "NVIDIA Ampere and later; torch.backends.cuda.matmul.allow_tf32",
          .not_modelled = {},
          .needs = "shapes",
          .code = "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True",
          .effort = Effort::kLine,
          .stage = Stage::kPrecision,
          .advise = {"tf32"},
          .validated = true,
          .apply = apply_tf32};
}

}  // namespace foretrace::whatif
