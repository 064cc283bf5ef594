#pragma once
// Default errors, of log time, where no table of parameters has its own: spreads/*.csv, which tools/fit_spreads.py writes with the
// samples of each. Products have theirs in ProductWeights, measured operations in kernels/*.scales.csv.

namespace foretrace::hardware {

struct Spreads {
  // Of kernels measured on several GPUs, carried from one to another:
  double same_kernel = 0;   ///< kernels that stay the same, to another architecture
  double same_silicon = 0;  ///< products and attention between boards of one architecture; nothing there is further off
  double attention = 0;     ///< fused attention forward, to a GPU that had no part in the fit
  double unmeasured =
      0;  ///< what nobody measured on two GPUs, or anywhere: the widest of those measured, and as much again
  // Of the tables of measured operations:
  /// Of a convolution at two batch sizes, autotuned at both: one in ten takes so much longer than the law says.
  double own_algorithm = 0;
  double own_kernel = 0;  ///< of rows told by their neighbours, one in two hundred is further off
};
const Spreads& spreads();

}  // namespace foretrace::hardware
