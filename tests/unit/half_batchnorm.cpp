// The example of docs/internals/adding-a-whatif.md; tests/scripts/whatif_example_test.py holds the two together.
#include "whatif/catalogue/catalogue.hpp"

namespace foretrace::whatif {
namespace {

Status apply_half_batchnorm(Model&, Draft& draft, const Parameters& parameters) {
  const Selection norms = draft.select({.kind = TaskKind::kKernel, .op = "*batch_norm*"});
  if (norms.empty()) return fail(ErrorCode::kDeclined, "no batch norm runs in this step");
  draft.scale(norms, parameters.number("x"));
  return {};
}

WhatIf half_batchnorm_whatif() {
  return {.name = "half-batchnorm",
          .about = "batch-norm kernels read their input once",
          .parameters = {{"x", "factor on their time", "0.5", {}, ParameterType::kNumber}},
          .assumes = "they are bound by memory bandwidth",
          .source = "Jung et al. 2018",
          .not_modelled = "copies the new kernels need",
          .needs = {Need::kBackward},
          .changes = Changes::kKernels,
          .parts = {.cpu = Part::kUnchanged, .gpu = Part::kModelled, .memory = Part::kNotModelled},
          .code = {},
          .validated = false,
          .apply = apply_half_batchnorm};
}

const Registered kRegistered(half_batchnorm_whatif);

}  // namespace
}  // namespace foretrace::whatif
