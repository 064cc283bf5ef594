#pragma once
// The law of convolutions, the only one: the time of a forward pass or a gradient on any GPU. A convolution is the product of its
// patches (cost_product.hpp) with parameters of its own for each pass, element type, memory layout and kind of filter, and what
// a library does beside it: copies into the layout its kernels read, channels filled up to what tensor cores load at once, groups
// filled up to the smallest tile; in strict fp32 Winograd's algorithm where it is faster. Parameters are plain data,
// convolutions/*.csv, written by tools/fit_convolutions.py, which holds the same formula.
//
// On the silicon they were measured on the law follows the device's figures. Elsewhere a convolution takes as many times
// its product as there, and the product is its own architecture's.
//
// What-ifs ask it before and after a change, with what measured neighbours tell beside it (cost_measured.cpp); the transfer asks it for
// the GPU a convolution was measured on and for the one it goes to.

#include <optional>
#include <string_view>

#include "foretrace/base/result.hpp"
#include "foretrace/hardware/cost.hpp"
#include "hardware/cost_product.hpp"

namespace foretrace::hardware {

/// 0 where the work is no convolution, or its sizes are unknown.
double convolution_us(const Work& work, const TransferWeights& products, const Device& device);
/// By the parameters fitted to measured convolutions, whatever the device. 0 as above.
double convolution_as_measured_us(const Work& work, const Device& device);
/// "dense fwd half nhwc": whose parameters a convolution follows.
std::string_view convolution_set(const Work& work);

}  // namespace foretrace::hardware
