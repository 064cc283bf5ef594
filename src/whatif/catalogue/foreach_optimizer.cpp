
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/rewrite/optimizer.hpp"

namespace foretrace::whatif {
namespace {

Status apply_foreach(Model& m, Draft& draft, const Parameters&) {
  // Passes of the multi-tensor Adam and the values each moves per element: lerp 3, mul 2, addcmul 3, sqrt 2, div 2, add 2,
  // addcdiv 4. SGD with momentum: mul 2, add 3, add 3.
  // Adam holds the root of the second moment of all parameters at once.
  UpdatePlan plan{"multi-tensor update", 18, {2, 1, 3, 2, 1, 1, 3}, m.host.update.foreach_tensor_us, 1};
  const int states = states_of(m);
  if (states == 1) plan = {"multi-tensor update", 8, {1, 2, 2}, m.host.update.list_tensor_us};
  if (states == 0) plan = {"multi-tensor update", 3, {2}, m.host.update.list_tensor_us};
  return replace_update(m, draft, plan);
}

std::string already_there(const Model& m, const Parameters&) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (has->fused_update)
    return "the step already runs a fused update, which has less to do than one over lists of tensors";
  return has->foreach_update ? "the step already runs its update over lists of tensors" : "";
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  to.optimizer.push_back("    options[\"foreach\"] = True" + p.gain);
}

const Registered kRegistered(
    {.name = "foreach-optimizer",
     .about = "the update runs over lists of tensors, one kernel per arithmetic step",
     .assumes = "Adam, AdamW or SGD with FP32 states; parameters on one GPU",
     .source = "PyTorch foreach=True",
     .needs = {Need::kShapes},
     .changes = Changes::kOptimizer,
     .parts = {.memory = Part::kModelled},
     .fits = Fits::kTraining,
     .code = "torch.optim.Adam(model.parameters(), lr, foreach=True)",
     .effort = Effort::kLine,
     .stage = Stage::kOptimizer,
     .advise = {"foreach-optimizer"},
     .validated = true,
     .apply = apply_foreach,
     .already = already_there,
     .whole_program = "XLA fuses the update itself; there is no list of optimizer kernels to join",
     .write_code = write_code,
     .explains = {{Difference::kUpdateOverLists}}});

}  // namespace
}  // namespace foretrace::whatif
