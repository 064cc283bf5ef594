#pragma once
// What the optimizer what-ifs share: finding the update, and replacing it by fewer, larger kernels.

#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Launches of a kernel of PyTorch's multi_tensor_apply that is given `lists` of `tensors` of `elements` in all.
double list_launches(int lists, double tensors, double elements);

/// What each parameter element moves in one update, and in which passes.
struct UpdatePlan {
  std::string kernel;         ///< name of the new kernels
  double values_per_element;  ///< read and written, all passes, each of the parameter's type
  std::vector<int> passes;    ///< kernels over all parameters, one after another: lists of tensors that each is given
  double cpu_us_per_tensor;   ///< Python's bookkeeping for each tensor, at speed 1
  double held_copies = 0;     ///< temporaries at their most, in sizes of all parameters
  int states = 0;             ///< that a single pass reads and writes in addition to parameter and gradient
  bool counts = false;        ///< step counts are on the GPU, and are added to first
};

/// Removes the update's kernels and CPU time and inserts the plan's. Declines when the trace shows no such update.
Status replace_update(Model& model, Draft& draft, const UpdatePlan& plan);

/// Optimizer states kept per parameter: 2 for Adam and its like, 1 for SGD with momentum, 0 for plain SGD.
int states_of(const Model& model);

}  // namespace foretrace::whatif
