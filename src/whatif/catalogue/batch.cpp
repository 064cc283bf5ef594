#include <fmt/format.h>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/loading.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {
namespace {

Status apply_batch(Model& m, Draft& draft, const Parameters& parameters) {
  const double x = parameters.number("x");
  const std::size_t loading = scale_loading(m, draft, x);
  if (scale_batch(m, draft, x) + loading == 0) {
    return fail(ErrorCode::kDeclined, "the step runs nothing that depends on the batch");
  }
  m.samples *= x;
  return {};
}

std::string code_for(const Parameters& p, bool training) {
  if (!training) return {};
  return fmt::format("DataLoader(dataset, batch_size={:g} * batch_size)", p.number("x"));
}

const Registered kRegistered(
    {.name = "batch",
     .about = "a batch x times as large",
     .parameters =
         {{.name = "x", .about = "factor on the batch size", .type = ParameterType::kNumber, .required = true}},
     .assumes =
         "every forward and backward kernel works on the whole batch; products and convolutions take what "
         "measured ones of the new size do, their scratch memory what their algorithm needs; loading takes as long for "
         "every sample as in this trace",
     .source = "wave quantisation; Habitat section 5 discusses batch sizes",
     .not_modelled = "other algorithms that a library may choose for shapes that were not measured",
     .changes = Changes::kBatch,
     .parts = {.memory = Part::kModelled},
     .code = "DataLoader(dataset, batch_size=…)",
     .inference_code =
         "more samples or requests per step: batch_size=…, --max-num-seqs (vLLM), --max-running-requests (SGLang)",
     .jax_code = "step(state, batch)  # with a larger batch: another program is compiled",
     .code_for = code_for,
     .effort = Effort::kLine,
     .stage = Stage::kBatch,
     .advise = {"batch:x=2", "batch:x=4"},
     .validated = true,
     .apply = apply_batch});

}  // namespace
}  // namespace foretrace::whatif
