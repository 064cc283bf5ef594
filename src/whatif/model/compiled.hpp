#pragma once
// Steps compiled as a whole (JAX, TensorFlow through XLA). The compiler has already decided what PyTorch leaves to the author
// of the step.

#include <string>

#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "trace/machine.hpp"

namespace foretrace::whatif {

inline bool is_compiled(const Model& model) {
  return model.trace != nullptr && (model.trace->format == "xplane" || model.trace->format == "xla-json");
}

/// A program of TensorFlow's own executor, for which only changes of the machine are known.
inline bool is_tensorflow(const Model& model) {
  return model.trace != nullptr && trace::framework_of(*model.trace) == trace::Framework::kTensorFlow;
}
inline bool changes_machine(const WhatIf& whatif) {
  return whatif.changes == Changes::kCosts || whatif.changes == Changes::kHost || whatif.changes == Changes::kDevice ||
         whatif.changes == Changes::kNetwork;
}

}  // namespace foretrace::whatif
