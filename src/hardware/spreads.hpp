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
  /// Of rows in the tables of measured operations, told by their neighbours: one in two hundred is further off.
  double own_kernel = 0;
};
const Spreads& spreads();

}  // namespace foretrace::hardware
