// Matrix products: the best tile's waves over the SMs, or the memory traffic, whichever is longer.

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

namespace {

// Tiles cuBLAS chooses from, as their kernels' names tell. A library picks the fastest, and so does the model.
constexpr std::array<std::pair<int, int>, 17> kTiles = {{{256, 128},
                                                         {128, 256},
                                                         {192, 128},
                                                         {128, 192},
                                                         {192, 192},
                                                         {128, 128},
                                                         {256, 64},
                                                         {64, 256},
                                                         {128, 64},
                                                         {64, 128},
                                                         {96, 64},
                                                         {64, 96},
                                                         {64, 64},
                                                         {64, 32},
                                                         {32, 64},
                                                         {64, 16},
                                                         {16, 64}}};
constexpr std::array<int, 9> kSplits = {1, 2, 3, 4, 6, 8, 12, 16, 32};

}  // namespace

double product_us(double batch, double m, double n, double k, double bytes, double peak_tflops, const ProductRates& r,
                  const Device& d) {
  const double sms = d.sm_count;
  const double per_sm = peak_tflops * 1e6 / sms;  // operations per us
  double best = INFINITY;
  for (const auto& [tm, tn] : kTiles) {
    const double tiles = batch * std::ceil(m / tm) * std::ceil(n / tn);
    const double edge = static_cast<double>(tm) * tn / (tm + tn);
    const double rate = per_sm * r.share * edge / (edge + r.traffic);
    for (const int split : kSplits) {
      const double waves = tiles * split / sms;
      const double turns = r.round_up * std::ceil(waves) + (1 - r.round_up) * std::max(waves, 1.0);
      const double turn = std::max(2.0 * tm * tn * (k / split + r.start_k) / rate, r.step_ns * 1e-3 * k / split);
      double t = turns * turn;
      // Partial results go through memory in fp32, mostly L2: half as fast again as memory.
      if (split > 1) t += r.split_us + split * batch * m * n * 4 / (d.bandwidth_gbs * 1.5e3);
      best = std::min(best, t);
    }
  }
  const double memory = bytes / (d.bandwidth_gbs * r.memory * 1e3);
  return r.launch_us + std::pow(std::pow(best, r.blend) + std::pow(memory, r.blend), 1 / r.blend);
}

// All rates: least mean |log error| over 1,363 products measured on an H200 (linear layers of 256-400k tokens forward and
// backward, attention products; fp16, bf16, TF32, fp32) and the products of four models' steps. Mean error, held out on five
// other models' steps: aligned half 5.1 % (84 shapes, their total -1.3 %), even 4.4 % (3), TF32 6 % (36), fp32 6.5 % (152,
// total +0.3 %). Odd dimensions 12.6 %, in sample only.
ProductRates half_rates(std::int64_t alignment) {
  // nvjet kernels with bulk copies; two, four: cutlass_80 kernels; odd: cutlass_75, one element at a time.
  if (alignment >= 8) return {2.1, 0.917, 7.4, 178, 0.51, 0.82, 5.8, 4.6, 1.86};
  if (alignment >= 2) return {3.1, 0.310, 15.6, 52, 0.92, 0.51, 1.5, 3.7, 5.5};
  return {10.8, 0.150, 8.1, 104, 0.0, 0.30, 4.5, 0.0, 2.0};
}

ProductRates tf32_rates(std::int64_t alignment, bool a_transposed, bool b_transposed) {
  if (alignment < 4) return {3.7, 0.272, 14.5, 39, 0.05, 0.63, 3.2, 3.7, 2.0};
  // Tensor cores read TF32 operands along k only. A forward product has both so (a row by row, b by k); a data gradient has
  // one that is not; a weight gradient none: 390, 330 and 240 TFLOP/s on large shapes.
  if (a_transposed && !b_transposed) return {2.6, 0.72, 36.0, 93, 0.33, 0.87, 6.0, 4.6, 2.0};
  if (b_transposed) return {4.3, 0.972, 16.0, 40, 0.58, 0.83, 2.6, 10.0, 2.8};
  return {4.0, 0.90, 20.0, 100, 0.20, 0.87, 2.4, 4.0, 2.8};
}

ProductRates fp32_rates() { return {4.3, 0.908, 15.1, 35, 0.31, 0.75, 3.3, 6.7, 3.0}; }

double product_model_us(const Work& w, const Gemm& g, const Device& d) {
  const std::int64_t alignment = g.alignment();
  ProductRates rates = fp32_rates();
  // A vector is no tile: gemv kernels stream the matrix.
  const bool vector = g.m == 1 || g.n == 1 || g.k == 1;
  if (is_half(w.dtype)) {
    rates = half_rates(vector ? 8 : alignment);
  } else if (w.dtype == Dtype::kTf32) {
    rates = tf32_rates(alignment, g.a_transposed, g.b_transposed);
  }
  return product_us(static_cast<double>(g.batch), static_cast<double>(g.m), static_cast<double>(g.n),
                    static_cast<double>(g.k), w.bytes(), d.tflops(w.dtype), rates, d);
}

ModelledTime gemm_model(const Work& w, const Gemm& g, const Device& d) {
  if (g.m <= 0 || g.n <= 0 || g.k <= 0 || d.sm_count <= 0) return {};
  const bool vector = g.m == 1 || g.n == 1 || g.k == 1;
  // Rows that no 16-byte access fits: kernels of several generations, chosen by rules nobody publishes.
  if (const ModelledTime told = measured_model(w, d); told.us > 0) return told;
  const double us = product_model_us(w, g, d);
  double sigma = vector ? 0.4 : is_half(w.dtype) ? 0.07 : w.dtype == Dtype::kTf32 ? 0.12 : 0.09;
  // Below ten microseconds a launch's own spread shows.
  if (us < 10) sigma = std::max(sigma, 0.15);
  return {us, sigma};
}

}  // namespace foretrace::hardware
