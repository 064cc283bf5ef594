#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/optimizer.hpp"

namespace foretrace::whatif {

namespace {

Status apply_foreach(Model& m, Draft& draft, const Parameters&) {
  // Passes of the multi-tensor Adam and what each moves per element: lerp 12 B, mul 8, addcmul 12, sqrt 8, div 8, add 8,
  // addcdiv 16. SGD with momentum: mul 8, add 12, add 12.
  // Adam holds the root of the second moment of all parameters at once.
  UpdatePlan plan{"multi-tensor update", 72, 7, 30, m.host.foreach_tensor_us, 1};
  const int states = states_of(m);
  if (states == 1) plan = {"multi-tensor update", 32, 3, 30, m.host.list_tensor_us};
  if (states == 0) plan = {"multi-tensor update", 12, 1, 30, m.host.list_tensor_us};
  return replace_update(m, draft, plan);
}

WhatIf foreach_optimizer_whatif() {
  return {.name = "foreach-optimizer",
          .about = "the update runs over lists of tensors, one kernel per arithmetic step",
          .parameters = {},
          .assumes = "Adam, AdamW or SGD with FP32 states; parameters on one GPU",
          .source = "PyTorch foreach=True",
          .not_modelled = {},
          .needs = {Need::kShapes},
          .changes = Changes::kOptimizer,
          .parts = {.memory = Part::kModelled},
          .code = "torch.optim.Adam(model.parameters(), lr, foreach=True)",
          .effort = Effort::kLine,
          .stage = Stage::kOptimizer,
          .advise = {"foreach-optimizer"},
          .validated = true,
          .apply = apply_foreach};
}

const Registered kRegistered(foreach_optimizer_whatif);

}  // namespace

}  // namespace foretrace::whatif
