#pragma once
// Programs that a compiler made of the whole step (JAX, TensorFlow through XLA). What PyTorch leaves to whoever writes the
// step, the compiler has decided already.

#include <string>
#include <string_view>

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// Whether the step is such a program.
bool is_compiled(const Model& model);
/// Why this what-if says nothing about such a step; empty where it does, and for steps that are none.
std::string not_for_compiled(const Model& model, std::string_view whatif);

}  // namespace foretrace::whatif
