#include "whatif/model/fitting.hpp"

#include <fmt/format.h>

#include "whatif/model/compiled.hpp"
#include "whatif/model/graph_facts.hpp"

namespace foretrace::whatif {

graph::StepNature GraphFacts::nature(const Model& model) const {
  std::call_once(nature_->found, [&] {
    if (model.trace != nullptr) nature_->is = graph::step_nature(*model.trace, model.graph);
  });
  return nature_->is;
}

graph::StepNature nature_of(const Model& model) {
  if (model.facts) return model.facts->nature(model);
  return model.trace != nullptr ? graph::step_nature(*model.trace, model.graph) : graph::StepNature{};
}

std::string code_of(const Use& use, const Model& model) {
  const WhatIf& whatif = *use.whatif;
  if (is_compiled(model)) return whatif.jax_code;
  const bool training = nature_of(model).kind == graph::StepKind::kTraining;
  if (whatif.code_for != nullptr) {
    if (std::string code = whatif.code_for(use.parameters, training); !code.empty()) return code;
  }
  return whatif.inference_code.empty() || training ? whatif.code : whatif.inference_code;
}

std::string unfit_for(const WhatIf& whatif, const Model& model) {
  const graph::StepNature step = nature_of(model);
  if (whatif.fits == Fits::kTraining && step.infers()) {
    return fmt::format("it is for training, and this is not a training step ({})", to_string(step.kind));
  }
  if (whatif.fits == Fits::kNotServing && step.generates()) {
    return fmt::format("the next step needs what this one computes ({})", to_string(step.kind));
  }
  return {};
}

}  // namespace foretrace::whatif
