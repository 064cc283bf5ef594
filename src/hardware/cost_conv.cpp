// Convolutions: an implicit matrix product over channels-last tensors, and the layout changes around it where the framework's
// tensors are channels-first. Kernel by kernel the two can be told apart in traces, and each follows a simple law.

#include <algorithm>
#include <cmath>

#include "base/saturate.hpp"
#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

namespace {

struct Sizes {
  double in, out, weights;  // elements
  double taps, pixels;      // R x S; H x W of the input
};

Sizes sizes_of(const Convolution& c) {
  const double n = static_cast<double>(c.input[0]);
  Sizes s{};
  s.taps = static_cast<double>(c.kernel_h * c.kernel_w);
  s.pixels = static_cast<double>(c.input[2] * c.input[3]);
  s.in = n * static_cast<double>(c.input[1]) * s.pixels;
  s.out = n * static_cast<double>(c.out_channels) * static_cast<double>(c.out_h * c.out_w);
  s.weights =
      static_cast<double>(c.out_channels) * static_cast<double>(c.input[1]) / static_cast<double>(c.groups) * s.taps;
  return s;
}

// One change between channels-first and channels-last. 0.57 T elements/s in half and 0.46 T in fp32 on an H200, half as fast
// again while both copies fit in L2; weights (3 x 3 pixels a channel) are transposed far less well, and images of fewer than 8
// channels worst of all. Twelve tensors from 0.3 to 411 MB, mean error 9 %.
double layout_us(double elements, double channels, bool weights, Dtype dtype, const Device& d) {
  if (weights) return 1.7 + elements / element_rate(0.73, d);
  if (channels < 8) return 2.0 + elements / element_rate(0.27, d);
  const double bytes = 2 * elements * static_cast<double>(bytes_of(dtype));
  const double rate = (is_half(dtype) ? 2.2 : 1.75) * (bytes < d.l2_mb * 1e6 ? 1.4 : 1.0);
  return 2.0 + elements / element_rate(rate, d);
}

// One channel per group: no product at all. Channels-last, from ConvNeXt's 7 x 7 layers: operations per clock and SM (half
// 8.9-13.5, 4.5-5.6 and 9.6-19 TFLOP/s forward, for the data and for the weights). Channels-first, from the 3 x 3 and 5 x 5 of
// MobileNetV3 and EfficientNet-B0: time per element written, by cuDNN's kernels (half, stride 1) or by the framework's own,
// which take three times as long and as long in half as in fp32.
ModelledTime depthwise(const Work& w, const Convolution& c, const Sizes& s, const Device& d) {
  const bool half = is_half(w.dtype);
  const bool data = w.family == Family::kConvDataGrad;
  const bool filter = w.family == Family::kConvWeightGrad;
  double us = 0;
  if (c.channels_last) {
    us = w.flops / element_rate(data ? (half ? 21 : 31) : filter ? (half ? 54 : 13) : (half ? 43 : 34), d);
  } else {
    const bool tiles = half && c.stride == 1;
    const double ps = filter  ? (tiles ? 6.5 : 25.0)
                      : tiles ? 2.6 + 0.12 * s.taps
                      : data  ? 14 + 0.3 * s.taps
                              : 5.5 + 0.5 * s.taps;
    constexpr double kPsAtOnePerClock = 3.83;  // 132 SMs at 1.98 GHz
    us = (data ? s.in : s.out) / element_rate(kPsAtOnePerClock / ps, d);
  }
  // In strict fp32 the gradient of the weights took 1-19 ms instead of 0.1-1.1: a ratio may use this, nothing else should.
  const double sigma = filter ? (half ? 0.5 : 1.5) : 0.45;
  return {3 + std::max(us, stream_us(w.bytes(), d)), sigma};
}

// The product itself, channels-last.
double product(const Work& w, const Convolution& c, const Sizes& s, const ProductRates& rates, const Device& d) {
  const double groups = static_cast<double>(c.groups);
  const double in = static_cast<double>(c.input[1]) / groups;
  const double out = static_cast<double>(c.out_channels) / groups;
  const double samples = static_cast<double>(c.input[0]);
  const double positions = samples * static_cast<double>(c.out_h * c.out_w);
  const double peak = d.tflops(w.dtype);
  // A stride wider than the kernel skips most of the input.
  const double unused = std::max(0.0, 1 - s.taps / static_cast<double>(c.stride * c.stride));
  const double skipped = w.family == Family::kConvDataGrad ? 0 : s.in * unused * static_cast<double>(bytes_of(w.dtype));
  const double bytes = w.bytes() - skipped;
  double t = 0;
  if (w.family == Family::kConvForward) {
    t = product_us(groups, positions, out, std::max(in, 8.0) * s.taps, bytes, peak, rates, d);
  } else if (w.family == Family::kConvDataGrad) {
    const double skip = static_cast<double>(c.stride * c.stride);
    t = product_us(groups, samples * s.pixels, std::max(in, 8.0), out * s.taps / skip, bytes, peak, rates, d);
    if (c.stride > 1) t *= 1.3;  // gathers through an index, 1.2-1.45 times the product's time
  } else {
    t = product_us(groups, out, std::max(in, 8.0) * s.taps, positions, bytes, peak, rates, d) +
        3;  // workspace, reduction
  }
  // Fewer than 8 channels: padded first, by kernels made for images; 1.6 to 3 times as long. 64 channels fill half a tile;
  // with 128 and more a convolution re-uses its operands better than a product of the same size (840 TFLOP/s).
  if (in < 8) return t * 2.2 + 20;
  return t * (std::min(in, out) < 96 ? 1.1 : 0.95) *
         (!is_half(w.dtype) && w.family == Family::kConvWeightGrad ? 1.15 : 1.0);
}

}  // namespace

ModelledTime conv_model(const Work& w, const Convolution& c, const Device& d) {
  if (c.input[0] <= 0 || w.flops <= 0 || d.sm_count <= 0) return {};
  const Sizes s = sizes_of(c);
  const std::int64_t channels = c.channels_per_group();
  if (c.depthwise()) return depthwise(w, c, s, d);
  if (!is_half(w.dtype) && w.dtype != Dtype::kTf32) {
    // Strict fp32 runs from 11 to 123 TFLOP/s of the definition's operations: direct, Winograd and FFT kernels, chosen by
    // rules nobody publishes. The nearest of 102 measured layers is the best guess there is; left out, it misses by 30 %.
    Work strict = w;
    strict.dtype = strict.out_dtype = Dtype::kFp32;
    ModelledTime m = measured_model(strict, d);
    m.sigma = std::max(m.sigma, 0.45);
    // Small layers wait for their steps along k, 30 ns each on CUDA cores (DenseNet's 32 outputs from 128 channels).
    const std::int64_t summed = w.family == Family::kConvDataGrad ? c.out_channels : c.input[1];
    const std::int64_t depth = summed / std::max<std::int64_t>(1, c.groups);
    if (w.family != Family::kConvWeightGrad) {
      m.us = std::max(m.us, 0.03 * static_cast<double>(depth) * s.taps);
    }
    return m;
  }
  const bool half = is_half(w.dtype);
  const bool data = w.family == Family::kConvDataGrad;
  const bool filter = w.family == Family::kConvWeightGrad;
  const ProductRates rates = half ? half_rates(8) : tf32_rates(8, filter, !filter);
  double t = product(w, c, s, rates, d);
  if (c.channels_last) return {t, channels < 8 ? 0.4 : 0.15};

  // Channels-first. A 1 x 1 convolution is a product per image as it stands, if the pixels' rows are aligned.
  const std::int64_t pixels = saturated_product(c.input[2], c.input[3]);
  const bool plain = s.taps == 1 && c.stride == 1 && c.groups == 1;
  if (plain && pixels % (half ? 8 : 4) == 0) return {t * 1.05 + (filter ? 2 : 0), 0.15};
  if (plain && pixels % 4 == 0 && !filter) {
    const double m = static_cast<double>(data ? c.input[1] : c.out_channels);
    const double k = static_cast<double>(data ? c.out_channels : c.input[1]);
    return {product_us(static_cast<double>(c.input[0]), m, static_cast<double>(pixels), k, w.bytes(), d.tflops(w.dtype),
                       half_rates(4), d),
            0.2};
  }
  const double first =
      layout_us(data ? s.out : s.in, static_cast<double>(data ? c.out_channels : c.input[1]), false, w.dtype, d);
  const double second = filter       ? layout_us(s.out, static_cast<double>(c.out_channels), false, w.dtype, d)
                        : s.taps > 1 ? layout_us(s.weights, static_cast<double>(c.input[1]), true, w.dtype, d)
                                     : 0;
  const double last =
      filter
          ? (s.taps > 1 ? layout_us(s.weights, static_cast<double>(c.input[1]), true, w.dtype, d) : 0)
          : layout_us(data ? s.in : s.out, static_cast<double>(data ? c.input[1] : c.out_channels), false, w.dtype, d);
  t += first + second + last;
  if (channels >= 8) return {t, 0.15};
  // An image's layer may also run as it stands, without tensor cores: 14 to 30 TFLOP/s, the more taps the better.
  const double direct = w.flops / element_rate(filter ? 30.0 : 46.0 + 0.09 * s.taps, d);
  return {std::min(t, direct), 0.4};
}

ModelledTime strict_conv_growth(const Work& w, const Convolution& c, const Device& d) {
  if (c.input[0] <= 0 || w.flops <= 0 || d.sm_count <= 0) return {};
  ProductRates rates = fp32_rates();
  rates.round_up = 0.8;  // cuDNN's fp32 kernels are not persistent
  // Larger batches also get better algorithms: twice the images took 1.93 times as long over 11 layers of VGG-16, four times
  // 3.45 over ResNet-50's, where waves alone say 1.99 and 3.8.
  const double better = std::pow(static_cast<double>(c.input[0]), -0.06);
  return {product(w, c, sizes_of(c), rates, d) * better, 0.25};
}

}  // namespace foretrace::hardware
