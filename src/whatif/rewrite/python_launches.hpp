#pragma once
// Kernels written in Python (Triton), launched by an autograd function of the user's own instead of PyTorch's operation.

#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// The CPU time of a row's launches becomes that of one call of an autograd function, given `tensors`, that launches `kernels`
/// from Python. What a CUDA graph launches takes the CPU no longer than before.
void launch_from_python(const Model& model, Draft& draft, const Row& row, double tensors, double kernels);

}  // namespace foretrace::whatif
