#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/batch_scaling.hpp"

namespace foretrace::whatif {

namespace {

Status apply_batch(Model& m, Draft& draft, const Parameters& parameters) {
  if (scale_batch(m, draft, parameters.number("x")) == 0) {
    return fail(ErrorCode::kDeclined, "the step runs nothing on the GPU that depends on the batch");
  }
  m.samples *= parameters.number("x");
  return {};
}

WhatIf batch_whatif() {
  return {.name = "batch",
          .about = "a batch x times as large",
          .parameters = {{"x", "factor on the batch size", "", {}, ParameterType::kNumber, true}},
          .assumes =
              "every forward and backward kernel works on the whole batch; products and convolutions take what "
              "measured ones of the new size do, their scratch memory what their algorithm needs",
          .source = "wave quantisation; Habitat section 5 discusses batch sizes",
          .not_modelled = "other algorithms a library may choose for shapes nobody measured",
          .needs = {},
          .changes = Changes::kBatch,
          .parts = {.memory = Part::kModelled},
          .code = "DataLoader(dataset, batch_size=…)",
          .jax_code = "step(state, batch)  # with a larger batch: another program is compiled",
          .effort = Effort::kLine,
          .stage = Stage::kBatch,
          .advise = {"batch:x=2", "batch:x=4"},
          .validated = true,
          .apply = apply_batch};
}

const Registered kRegistered(batch_whatif);

}  // namespace

}  // namespace foretrace::whatif
