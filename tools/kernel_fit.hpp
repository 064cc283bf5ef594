#pragma once
// Fitting of what the residual of measured kernels needs: scales of features (tools/fit_kernels.py) and clocks (tools/fit_clocks.py).

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "hardware/kernel_features.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

/// All measured kernels of the reference device.
const MeasuredCategories& measured_categories();

/// How well the measured kernels of one pool predict each other: log(predicted / measured).
struct MeasuredPool {
  std::string name;  ///< "conv fwd grouped fp16 nhwc"
  std::vector<Neighbours::Sample> samples;
  std::vector<double> layer_left_out;  ///< each without its group: of a convolution all batch sizes of the layer
  std::vector<double> shape_left_out;  ///< each without its shape: the layer's other batches are known
};
std::vector<MeasuredPool> measured_pools();
/// The same where all convolutions of one group count, dilation, filter size or stride are left out together.
struct LeftOutFamily {
  std::string pool, what;
  std::vector<double> errors;
};
std::vector<LeftOutFamily> left_out_families();
/// The same where the operation is known as it was before a change: at another batch size, in another precision or layout.
struct LeftOutChange {
  std::string pool, what;
  std::vector<double> errors;
};
std::vector<LeftOutChange> left_out_changes();

/// Scales fitted anew: a row of kernels/<device>.scales.csv.
struct PoolScales {
  std::string pool;
  std::size_t samples = 0;
  double spread = 0, autotuning = 0;
  Scales scales;
  std::size_t features = 0;
};
/// Of the pools whose names start with `only`. `further`: the search goes on from the scales they have.
std::vector<PoolScales> fit_pools(std::string_view only, bool further);

/// Clocks fitted anew to the measured rows whose law follows them: a row of clocks/<device>.csv.
struct FittedClock {
  std::string_view name;
  double clocks = 0;
  std::size_t rows = 0;  ///< whose law follows it
  double off = 0;        ///< the median of |log(measured / law)| over them
};
std::vector<FittedClock> fit_clocks();

}  // namespace foretrace::hardware
