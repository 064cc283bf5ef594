#pragma once
// Programs that a compiler made of the whole step (JAX, TensorFlow through XLA). What PyTorch leaves to whoever writes the
// step, the compiler has decided already.

#include <string>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Whether the step is such a program.
bool is_compiled(const Model& model);

/// How a change is switched on in the language the step is written in: JAX where it is such a program, else PyTorch. Empty where nobody
/// knows a line.
std::string code_of(const WhatIf& whatif, const Model& model);

}  // namespace foretrace::whatif
