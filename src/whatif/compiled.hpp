#pragma once
// Programs that a compiler made of the whole step (JAX, TensorFlow through XLA). What PyTorch leaves to whoever writes the
// step, the compiler has decided already.

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// Whether the step is such a program.
bool is_compiled(const Model& model);

}  // namespace foretrace::whatif
