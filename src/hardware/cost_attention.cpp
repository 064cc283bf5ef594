// Fused attention.

#include <algorithm>
#include <cmath>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

ModelledTime attention_model(const Work& w, const Attention& a, const Device& d) {
  if (a.queries <= 0 || a.keys <= 0 || a.head_size <= 0 || w.flops <= 0) return {};
  const bool half = is_half(w.dtype);
  // Kernels work on whole tiles of 128 (forward) or 64 positions, and reach their rate only on long sequences: rate
  // s / (s + s0). Read from 152 measured shapes (s 50-4096, head size 64 and 128, full and causal), mean error 11 %; on three
  // models' steps held out 7 %.
  const double tile = half && !w.backward ? 128 : 64;
  const double q = std::ceil(static_cast<double>(a.queries) / tile) * tile;
  const double s = std::ceil(static_cast<double>(a.keys) / tile) * tile;
  const double heads = static_cast<double>(a.batch * a.heads);
  const double wide =
      std::pow(static_cast<double>(a.head_size) / 64, half ? (w.backward ? 0.42 : 0.55) : (w.backward ? 0.1 : 0.38));
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
  double flops = heads * 4 * q * s * static_cast<double>(a.head_size) * (w.backward ? 2.5 : 1.0);
  if (a.causal) {
    // With few waves the longest rows decide, and skipping the short ones gains little.
    const double part = std::min(1.05, 0.5 + causal_extra / s);
    const double waves = heads * std::ceil(q / 128) / std::max(1, d.sm_count);
    flops *= part + std::max(0.0, 1 - part) * std::min(1.0, 1.7 / std::max(waves, 0.1));
  }
  double t = flops / (peak * 1e6 * std::min(1.0, share * wide) * s / (s + half_length));
  // Random numbers: measured 1.9-2.06 and 1.08-1.15 in half, 1.30 and 1.17 in fp32.
  if (a.dropout) t *= half ? (w.backward ? 1.12 : 2.0) : (w.backward ? 1.17 : 1.30);
  const double us = (w.backward ? 5.0 : 3.0) + std::max(t, stream_us(w.bytes(), d));
  return {us, us < 40 ? 0.25 : 0.13};
}

}  // namespace foretrace::hardware
