#pragma once
// The law of convolutions: the time of a forward pass or a gradient on any GPU. A convolution is the product of its
// patches (cost_product.hpp) with parameters of its own for each pass, element type, memory layout and kind of filter, and what
// a library does in addition: copies into the layout its kernels read, channels padded to what tensor cores load at once, groups
// padded to the smallest tile; in strict fp32 Winograd's algorithm where it is faster. Parameters are plain data,
// convolutions/*.csv, written by tools/fit_convolutions.py.
//
// On the architecture they were measured on, the law follows the device's figures. Elsewhere it is the product of the patches with the
// architecture's own parameters: libraries differ by architecture, and the measured share would make predictions there worse.
//
// Used like the other laws (cost_product.hpp).

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"
#include "hardware/cost.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"

namespace foretrace::hardware {

class Tables;

/// A product's parameters and those of the library's additional work.
struct ConvolutionWeights : ProductWeights {
  double copy = 1;  ///< traffic of the copies into another layout, as a share of reading and writing every tensor once
  double copy_start = 0;            ///< us: one copy's begin and end
  double odd = 1;                   ///< the same traffic of filling channels up
  double loop = 0;                  ///< us for each group that is done by a kernel of its own
  double least_n = 1, least_k = 1;  ///< channels of a group, outer and inner, that its tiles are made for
};
using ConvolutionSets = std::map<std::string, ConvolutionWeights, std::less<>>;
/// A header, then a line per set: its name, tiles, and the parameters by the names of the header. Other columns are for people.
ConvolutionSets parse_convolutions(std::string_view csv);
/// With these parameters (tools/fit_convolutions.py tries many). 0 as below.
double convolution_us(const Work& work, const ConvolutionWeights& weights, const Device& device);

/// 0 where the work is no convolution, or its sizes are unknown.
double convolution_us(const Work& work, const Tables& tables, const Device& device);
/// By the parameters fitted to measured convolutions, whatever the device. 0 as above.
double convolution_as_measured_us(const Work& work, const Tables& tables, const Device& device);

/// cuDNN's direct kernel for the groups of a convolution (choice/chooser.hpp); 0 where its parameters are not known.
Estimate direct_convolution(const Work& work, const Tables& tables, const Device& device);

}  // namespace foretrace::hardware
