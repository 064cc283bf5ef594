#pragma once
// What the optimizer what-ifs share: finding the update, and replacing it by fewer, larger kernels.

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Bytes each parameter element moves in one update, and launches per group of tensors.
struct UpdatePlan {
  std::string kernel;        ///< name of the new kernels
  double bytes_per_element;  ///< read and written, all passes
  int passes;                ///< kernels over all parameters, one after another
  int tensors_per_launch;    ///< that fit into one launch's argument list
  double cpu_us_per_tensor;  ///< Python's bookkeeping for each tensor, at speed 1
  double held_copies = 0;    ///< temporaries at their most, in sizes of all parameters
  int states = 0;            ///< that a single pass reads and writes beside parameter and gradient
};

/// Removes the update's kernels and CPU time and inserts the plan's. Declines when the trace shows no such update.
Status replace_update(Model& model, Draft& draft, const UpdatePlan& plan);

/// Optimizer states kept per parameter: 2 for Adam and its like, 1 for SGD with momentum, 0 for plain SGD.
int states_of(const Model& model);

}  // namespace foretrace::whatif
