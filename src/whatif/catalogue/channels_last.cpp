#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

bool is_convolution(hardware::Family f) {
  using hardware::Family;
  return f == Family::kConvForward || f == Family::kConvDataGrad || f == Family::kConvWeightGrad;
}

Status apply_channels_last(Model& m, Draft& draft, const Parameters&) {
  std::size_t changed = 0;
  for (const Row& row : rows_of(m, draft)) {
    const hardware::Work work = m.works[row.work];
    if (!is_convolution(work.family) || work.channels_last) continue;
    hardware::Work becomes = work;
    becomes.channels_last = true;
    const hardware::Cost cost = rescale(static_cast<double>(row.time), work, m.device, becomes, m.device);
    if (!cost.known) continue;
    set_row(m, draft, row, cost.ns, becomes, cost.origin);
    ++changed;
  }
  if (changed == 0) return fail(ErrorCode::kDeclined, "no convolution would change its layout");
  return {};
}

}  // namespace

WhatIf channels_last_whatif() {
  return {.name = "channels-last",
          .about = "images keep their channels innermost (NHWC), which convolutions on tensor cores want",
          .parameters = {},
          .assumes = "the whole network runs in that layout; nothing converts back",
          .source = "torch.channels_last",
          .not_modelled = "batch-norm and pooling kernels of the other layout",
          .needs = "shapes",
          .code = "model.to(memory_format=torch.channels_last)",
          .effort = Effort::kFewLines,
          .stage = Stage::kKernels,
          .advise = {"channels-last"},
          .validated = true,
          .apply = apply_channels_last};
}

}  // namespace foretrace::whatif
