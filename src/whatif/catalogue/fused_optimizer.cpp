
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/optimizer.hpp"

namespace foretrace::whatif {
namespace {

Status apply_fused(Model& m, Draft& draft, const Parameters&) {
  // One pass reads parameter, gradient and states and writes parameter and states.
  const int states = states_of(m);
  return replace_update(m, draft,
                        {.kernel = "fused update",
                         .values_per_element = 3.0 + 2.0 * states,
                         .passes = {2 + states},
                         .cpu_us_per_tensor = m.host.update.fused_tensor_us,
                         .states = states,
                         .counts = states == 2});
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.optimizer.push_back("    options[\"fused\"] = True" + p.gain);
}

const Registered kRegistered(
    {.name = "fused-optimizer",
     .about = "one kernel per group of tensors updates parameters and states in a single pass",
     .assumes = "Adam, AdamW or SGD with FP32 states; parameters on one GPU",
     .source = "PyTorch fused=True; FusedAdam (Apex), Daydream section 5",
     .needs = {Need::kShapes},
     .changes = Changes::kOptimizer,
     .parts = {.memory = Part::kModelled},
     .fits = Fits::kTraining,
     .code = "torch.optim.Adam(model.parameters(), lr, fused=True)",
     .effort = Effort::kLine,
     .stage = Stage::kOptimizer,
     .advise = {"fused-optimizer"},
     .validated = true,
     .apply = apply_fused,
     .already = if_step_has(&StepFacts::fused_update, "the step already runs a fused update"),
     .whole_program = "XLA fuses the update itself; there is no list of optimizer kernels to join",
     .write_code = write_code,
     .explains = {{Difference::kUpdateFused}}});

}  // namespace
}  // namespace foretrace::whatif
