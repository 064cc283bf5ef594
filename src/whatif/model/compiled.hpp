#pragma once
// Programs that a compiler made of the whole step (JAX, TensorFlow through XLA). What PyTorch leaves to whoever writes the
// step, the compiler has decided already.

#include <string>

#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

inline bool is_compiled(const Model& model) {
  return model.trace != nullptr && (model.trace->format == "xplane" || model.trace->format == "xla-json");
}

}  // namespace foretrace::whatif
