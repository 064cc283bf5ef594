#pragma once
// For which kinds of steps a change is proposed, and the line that switches it on.

#include <string>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "graph/step_kind.hpp"

namespace foretrace::whatif {

/// What the step of a model does, found out once for all models made from one.
graph::StepNature nature_of(const Model& model);

/// How a change is switched on in the language the step is written in and for what it does: JAX where it is such a program, else
/// PyTorch, without loss and gradients where nothing is trained, with the values of the use. Empty where no line is known.
std::string code_of(const Use& use, const Model& model);

/// Why a change is not proposed for what the step does; empty where it is. Asked for by name it is answered for any step.
std::string unfit_for(const WhatIf& whatif, const Model& model);

}  // namespace foretrace::whatif
