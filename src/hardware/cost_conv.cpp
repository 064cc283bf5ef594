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

Sizes sizes_of(const Work& w) {
  const double n = static_cast<double>(w.input[0]);
  Sizes s{};
  s.taps = static_cast<double>(w.kernel_h * w.kernel_w);
  s.pixels = static_cast<double>(w.input[2] * w.input[3]);
  s.in = n * static_cast<double>(w.input[1]) * s.pixels;
  s.out = n * static_cast<double>(w.out_channels) * static_cast<double>(w.out_h * w.out_w);
  s.weights =
      static_cast<double>(w.out_channels) * static_cast<double>(w.input[1]) / static_cast<double>(w.groups) * s.taps;
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
Model depthwise(const Work& w, const Sizes& s, const Device& d) {
  const bool half = is_half(w.dtype);
  const bool data = w.family == Family::kConvDataGrad;
  const bool filter = w.family == Family::kConvWeightGrad;
  double us = 0;
  if (w.channels_last) {
    us = w.flops / element_rate(data ? (half ? 21 : 31) : filter ? (half ? 54 : 13) : (half ? 43 : 34), d);
  } else {
    const bool tiles = half && w.stride == 1;
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
double product(const Work& w, const Sizes& s, const ProductRates& rates, const Device& d) {
  const double groups = static_cast<double>(w.groups);
  const double c = static_cast<double>(w.input[1]) / groups;
  const double o = static_cast<double>(w.out_channels) / groups;
  const double samples = static_cast<double>(w.input[0]);
  const double positions = samples * static_cast<double>(w.out_h * w.out_w);
  const double peak = d.tflops(w.dtype);
  // A stride wider than the kernel skips most of the input.
  const double unused = std::max(0.0, 1 - s.taps / static_cast<double>(w.stride * w.stride));
  const double skipped = w.family == Family::kConvDataGrad ? 0 : s.in * unused * static_cast<double>(bytes_of(w.dtype));
  const double bytes = w.bytes() - skipped;
  double t = 0;
  if (w.family == Family::kConvForward) {
    t = product_us(groups, positions, o, std::max(c, 8.0) * s.taps, bytes, peak, rates, d);
  } else if (w.family == Family::kConvDataGrad) {
    const double skip = static_cast<double>(w.stride * w.stride);
    t = product_us(groups, samples * s.pixels, std::max(c, 8.0), o * s.taps / skip, bytes, peak, rates, d);
    if (w.stride > 1) t *= 1.3;  // gathers through an index, 1.2-1.45 times the product's time
  } else {
    t = product_us(groups, o, std::max(c, 8.0) * s.taps, positions, bytes, peak, rates, d) + 3;  // workspace, reduction
  }
  // Fewer than 8 channels: padded first, by kernels made for images; 1.6 to 3 times as long. 64 channels fill half a tile;
  // with 128 and more a convolution re-uses its operands better than a product of the same size (840 TFLOP/s).
  if (c < 8) return t * 2.2 + 20;
  return t * (std::min(c, o) < 96 ? 1.1 : 0.95) *
         (!is_half(w.dtype) && w.family == Family::kConvWeightGrad ? 1.15 : 1.0);
}

}  // namespace

Model conv_model(const Work& w, const Device& d) {
  if (w.input[0] <= 0 || w.flops <= 0 || d.sm_count <= 0) return {};
  const Sizes s = sizes_of(w);
  const std::int64_t channels = w.input[1] / std::max<std::int64_t>(1, w.groups);
  if (w.groups > 1 && channels <= 2) return depthwise(w, s, d);
  if (!is_half(w.dtype) && w.dtype != Dtype::kTf32) {
    // Strict fp32 runs from 11 to 123 TFLOP/s of the definition's operations: direct, Winograd and FFT kernels, chosen by
    // rules nobody publishes. The nearest of 102 measured layers is the best guess there is; left out, it misses by 30 %.
    Work strict = w;
    strict.dtype = strict.out_dtype = Dtype::kFp32;
    Model m = measured_model(strict, d);
    m.sigma = std::max(m.sigma, 0.45);
    // Small layers wait for their steps along k, 30 ns each on CUDA cores (DenseNet's 32 outputs from 128 channels).
    const std::int64_t summed = w.family == Family::kConvDataGrad ? w.out_channels : w.input[1];
    const std::int64_t depth = summed / std::max<std::int64_t>(1, w.groups);
    if (w.family != Family::kConvWeightGrad) {
      m.us = std::max(m.us, 0.03 * static_cast<double>(depth) * s.taps);
    }
    return m;
  }
  const bool half = is_half(w.dtype);
  const bool data = w.family == Family::kConvDataGrad;
  const bool filter = w.family == Family::kConvWeightGrad;
  const ProductRates rates = half ? half_rates(8) : tf32_rates(8, filter, !filter);
  double t = product(w, s, rates, d);
  if (w.channels_last) return {t, channels < 8 ? 0.4 : 0.15};

  // Channels-first. A 1 x 1 convolution is a product per image as it stands, if the pixels' rows are aligned.
  const std::int64_t pixels = saturated_product(w.input[2], w.input[3]);
  const bool plain = s.taps == 1 && w.stride == 1 && w.groups == 1;
  if (plain && pixels % (half ? 8 : 4) == 0) return {t * 1.05 + (filter ? 2 : 0), 0.15};
  if (plain && pixels % 4 == 0 && !filter) {
    const double m = static_cast<double>(data ? w.input[1] : w.out_channels);
    const double k = static_cast<double>(data ? w.out_channels : w.input[1]);
    return {product_us(static_cast<double>(w.input[0]), m, static_cast<double>(pixels), k, w.bytes(), d.tflops(w.dtype),
                       half_rates(4), d),
            0.2};
  }
  const double first =
      layout_us(data ? s.out : s.in, static_cast<double>(data ? w.out_channels : w.input[1]), false, w.dtype, d);
  const double second = filter       ? layout_us(s.out, static_cast<double>(w.out_channels), false, w.dtype, d)
                        : s.taps > 1 ? layout_us(s.weights, static_cast<double>(w.input[1]), true, w.dtype, d)
                                     : 0;
  const double last =
      filter
          ? (s.taps > 1 ? layout_us(s.weights, static_cast<double>(w.input[1]), true, w.dtype, d) : 0)
          : layout_us(data ? s.in : s.out, static_cast<double>(data ? w.input[1] : w.out_channels), false, w.dtype, d);
  t += first + second + last;
  if (channels >= 8) return {t, 0.15};
  // An image's layer may also run as it stands, without tensor cores: 14 to 30 TFLOP/s, the more taps the better.
  const double direct = w.flops / element_rate(filter ? 30.0 : 46.0 + 0.09 * s.taps, d);
  return {std::min(t, direct), 0.4};
}

Model strict_conv_growth(const Work& w, const Device& d) {
  if (w.input[0] <= 0 || w.flops <= 0 || d.sm_count <= 0) return {};
  ProductRates rates = fp32_rates();
  rates.round_up = 0.8;  // cuDNN's fp32 kernels are not persistent
  // Larger batches also get better algorithms: twice the images took 1.93 times as long over 11 layers of VGG-16, four times
  // 3.45 over ResNet-50's, where waves alone say 1.99 and 3.8.
  const double better = std::pow(static_cast<double>(w.input[0]), -0.06);
  return {product(w, sizes_of(w), rates, d) * better, 0.25};
}

Model attention_model(const Work& w, const Device& d) {
  if (w.queries <= 0 || w.keys <= 0 || w.head_size <= 0 || w.flops <= 0) return {};
  const bool half = is_half(w.dtype);
  // Kernels work on whole tiles of 128 (forward) or 64 positions, and reach their rate only on long sequences: rate
  // s / (s + s0). Read from 152 measured shapes (s 50-4096, head size 64 and 128, full and causal), mean error 11 %; on three
  // models' steps held out 7 %.
  const double tile = half && !w.backward ? 128 : 64;
  const double q = std::ceil(static_cast<double>(w.queries) / tile) * tile;
  const double s = std::ceil(static_cast<double>(w.keys) / tile) * tile;
  const double heads = static_cast<double>(w.batch * w.heads);
  const double wide =
      std::pow(static_cast<double>(w.head_size) / 64, half ? (w.backward ? 0.42 : 0.55) : (w.backward ? 0.1 : 0.38));
  double share = 0;  // of the peak rate, head size 64
  double half_length = 0;
  double causal_extra = 0;  // a causal kernel still computes the tiles on the diagonal
  if (half) {
    share = 0.485;
    half_length = w.backward ? 400 : 125;
    causal_extra = w.backward ? 155 : 110;
  } else {
    share = w.backward ? 0.55 : 0.53;  // fp32 products without tensor cores
    half_length = 27;
    causal_extra = 55;
  }
  const double peak = half ? d.tflops(w.dtype) : d.tflops_fp32;
  double flops = heads * 4 * q * s * static_cast<double>(w.head_size) * (w.backward ? 2.5 : 1.0);
  if (w.causal) {
    // With few waves the longest rows decide, and skipping the short ones gains little.
    const double part = std::min(1.05, 0.5 + causal_extra / s);
    const double waves = heads * std::ceil(q / 128) / std::max(1, d.sm_count);
    flops *= part + std::max(0.0, 1 - part) * std::min(1.0, 1.7 / std::max(waves, 0.1));
  }
  double t = flops / (peak * 1e6 * std::min(1.0, share * wide) * s / (s + half_length));
  // Random numbers: measured 1.9-2.06 and 1.08-1.15 in half, 1.30 and 1.17 in fp32.
  if (w.dropout) t *= half ? (w.backward ? 1.12 : 2.0) : (w.backward ? 1.17 : 1.30);
  const double us = (w.backward ? 5.0 : 3.0) + std::max(t, stream_us(w.bytes(), d));
  return {us, us < 40 ? 0.25 : 0.13};
}

// PyTorch asks cuDNN for its persistent kernel (recurrent weights stay on chip, one launch a layer) in fp16 alone, and only for
// the shapes on its list (ATen/native/cudnn/RNN.cpp).
bool persistent_rnn(const Work& w) {
  return w.dtype == Dtype::kFp16 && w.layers == 1 && w.directions == 1 && w.hidden <= 1024 && w.hidden % 128 == 0 &&
         w.k % 128 == 0 && w.batch % 8 == 0 && w.batch <= 128;
}

namespace {

// One time step of a layer, from 78 measured LSTMs (batch 20-256, 256-1500 units, one and two layers): the recurrent product
// and an element-wise kernel. A product of few rows waits for its steps along k: with hidden units, and slowly with the batch.
double rnn_step_us(const Work& w, double product) {
  const double h = static_cast<double>(w.hidden);
  const double b = static_cast<double>(w.batch);
  if (persistent_rnn(w)) return std::max(3.0, (w.backward ? 0.21 : 0.117) * b * h / 1024);
  // Layers that run side by side slow each other down.
  const bool several = w.layers > 1;
  if (is_half(w.dtype)) {
    const double aligned = w.hidden % 8 == 0 ? 1.0 : 4.5;  // 1,500 units; 650: 1.3
    const double step =
        (w.backward ? 6.0 : 2.4) + product * (w.backward ? 1.3 : 1.0) * aligned + (w.backward ? 0.03 : 0.005) * b;
    return step * (several && w.backward ? 1.17 : 1.0);
  }
  if (w.dtype == Dtype::kTf32) {
    return w.backward ? (14 + 0.0125 * h * std::pow(b / 64, 0.45)) * (several ? 1.5 : 1.0)
                      : (5 + 0.0085 * h * std::pow(b / 64, 0.35)) * (several ? 1.25 : 1.0);
  }
  const double waits = (w.backward ? 0.042 : 0.0245) * h * std::pow(b / 64, w.backward && b < 64 ? 0.6 : 0.35);
  return std::max(product, waits) + (w.backward ? 12 : 6);
}

}  // namespace

Model rnn_model(const Work& w, const Device& d) {
  if (w.hidden <= 0 || w.steps <= 0 || d.sm_count <= 0) return {};
  // cuDNN: the inputs' product for all steps at once, then step after step.
  const bool half = is_half(w.dtype);
  const ProductRates rates = half ? half_rates(8) : w.dtype == Dtype::kTf32 ? tf32_rates(8, false, true) : fp32_rates();
  const double peak = d.tflops(w.dtype);
  const double size = static_cast<double>(bytes_of(w.dtype));
  const double h = static_cast<double>(w.hidden);
  const double n = static_cast<double>(w.gates) * h;
  const double b = static_cast<double>(w.batch);
  const double t = static_cast<double>(w.steps);
  const auto gemm = [&](double rows, double columns, double depth) {
    return product_us(1, rows, columns, depth, size * (rows * depth + depth * columns + rows * columns), peak, rates,
                      d);
  };
  double total = 0;
  for (std::int64_t layer = 0; layer < w.layers; ++layer) {
    const double inputs = layer == 0 ? static_cast<double>(w.k) : h * static_cast<double>(w.directions);
    double one = t * rnn_step_us(w, gemm(b, n, h)) + gemm(t * b, n, inputs);
    if (w.backward) one += gemm(n, inputs, t * b) + gemm(n, h, t * b) + stream_us(4 * t * b * n * size, d);
    total += one * static_cast<double>(w.directions);
  }
  return {total, 0.25};
}

}  // namespace foretrace::hardware
