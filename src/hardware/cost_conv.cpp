// Convolutions: an implicit matrix product, and the layout changes around it.

#include <algorithm>
#include <cmath>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

Model conv_model(const Work& w, const Device& d) {
  if (w.input[0] <= 0 || w.flops <= 0) return {};
  const double peak = d.tflops(w.dtype) * 1e6;
  const double traffic = w.bytes() / (d.bandwidth_gbs * 0.70 * 1e3);
  if (w.dtype == Dtype::kFp32) {
    return {3 + std::max(w.flops / (peak * 0.55), traffic), 0.45};
  }
  const bool pointwise = w.kernel_h * w.kernel_w == 1 && w.stride == 1 && (w.input[2] * w.input[3]) % 8 == 0;
  const double narrow = static_cast<double>(std::min(w.input[1], w.out_channels)) / static_cast<double>(w.groups);
  const double share = (pointwise ? 0.60 : 0.50) * std::min(1.0, (narrow + 32) / 160);
  double t = std::max(w.flops / (peak * share), traffic);
  if (!w.channels_last && !pointwise) t += 2 * w.bytes() / (d.bandwidth_gbs * 0.46 * 1e3);
  return {4 + t, 0.25};
}

Model attention_model(const Work& w, const Device& d) {
  if (w.queries <= 0 || w.flops <= 0) return {};
  const double share = w.backward ? 0.30 : 0.28;
  const double t = w.flops / (d.tflops(w.dtype) * 1e6 * share);
  return {(w.backward ? 20 : 6) + std::max(t, stream_us(w.bytes(), d)), 0.25};
}

Model rnn_model(const Work& w, const Device& d) {
  if (w.hidden <= 0 || w.steps <= 0) return {};
  const double t = w.flops / (d.tflops(w.dtype) * 1e6 * 0.25);
  const double serial = static_cast<double>(w.steps * w.layers * w.directions) * (w.backward ? 10.0 : 7.0);
  return {t + serial, 0.4};
}

}  // namespace foretrace::hardware
