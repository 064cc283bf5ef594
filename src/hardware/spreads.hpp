#pragma once
// Default errors, of log time, where no table of parameters has its own: tables in spreads/, which tools/fit_spreads.py writes with the
// samples of each. Errors of work that moves to another GPU belong to pairs of GPUs, in one file. Those of products are in
// ProductWeights, of measured operations in kernels/*.scales.csv.

#include <string_view>

namespace foretrace::hardware {

struct Spreads {
  // Of kernels measured on several GPUs, carried from one to another:
  double same_kernel = 0;   ///< kernels that stay the same, to another architecture
  double same_silicon = 0;  ///< products and attention between boards of one architecture; nothing there is further off
  double attention = 0;     ///< fused attention forward, to a GPU that had no part in the fit
  double unmeasured =
      0;  ///< what nobody measured on two GPUs, or anywhere: the widest of those measured, and as much again
};
const Spreads& spreads();

/// Of rows in a device's tables of measured operations, estimated from their neighbours: one in two hundred is further off
/// (spreads/DEVICE.kernels.csv).
double parse_own_kernel(std::string_view csv);

}  // namespace foretrace::hardware
