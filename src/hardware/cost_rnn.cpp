// Recurrent layers, as cuDNN runs them: step after step.

#include <algorithm>
#include <cmath>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

// PyTorch asks cuDNN for its persistent kernel (recurrent weights stay on chip, one launch a layer) in fp16 alone, and only for
// the shapes on its list (ATen/native/cudnn/RNN.cpp).
bool persistent_rnn(Dtype dtype, const Recurrent& r) {
  return dtype == Dtype::kFp16 && r.layers == 1 && r.directions == 1 && r.hidden <= 1024 && r.hidden % 128 == 0 &&
         r.inputs % 128 == 0 && r.batch % 8 == 0 && r.batch <= 128;
}

namespace {

// One time step of a layer, from 78 measured LSTMs (batch 20-256, 256-1500 units, one and two layers): the recurrent product
// and an element-wise kernel. A product of few rows waits for its steps along k: with hidden units, and slowly with the batch.
double rnn_step_us(const Work& w, const Recurrent& r, double product) {
  const double h = static_cast<double>(r.hidden);
  const double b = static_cast<double>(r.batch);
  if (persistent_rnn(w.dtype, r)) return std::max(3.0, (w.backward ? 0.21 : 0.117) * b * h / 1024);
  // Layers that run side by side slow each other down.
  const bool several = r.layers > 1;
  if (is_half(w.dtype)) {
    const double aligned = r.hidden % 8 == 0 ? 1.0 : 4.5;  // 1,500 units; 650: 1.3
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

ModelledTime rnn_model(const Work& w, const Recurrent& r, const Device& d) {
  if (r.hidden <= 0 || r.steps <= 0 || d.sm_count <= 0) return {};
  // cuDNN: the inputs' product for all steps at once, then step after step.
  const bool half = is_half(w.dtype);
  const ProductRates rates = half ? half_rates(8) : w.dtype == Dtype::kTf32 ? tf32_rates(8, false, true) : fp32_rates();
  const double peak = d.tflops(w.dtype);
  const double size = static_cast<double>(bytes_of(w.dtype));
  const double h = static_cast<double>(r.hidden);
  const double n = static_cast<double>(r.gates) * h;
  const double b = static_cast<double>(r.batch);
  const double t = static_cast<double>(r.steps);
  const auto gemm = [&](double rows, double columns, double depth) {
    return product_us(1, rows, columns, depth, size * (rows * depth + depth * columns + rows * columns), peak, rates,
                      d);
  };
  double total = 0;
  for (std::int64_t layer = 0; layer < r.layers; ++layer) {
    const double inputs = layer == 0 ? static_cast<double>(r.inputs) : h * static_cast<double>(r.directions);
    double one = t * rnn_step_us(w, r, gemm(b, n, h)) + gemm(t * b, n, inputs);
    if (w.backward) one += gemm(n, inputs, t * b) + gemm(n, h, t * b) + stream_us(4 * t * b * n * size, d);
    total += one * static_cast<double>(r.directions);
  }
  return {total, 0.25};
}

}  // namespace foretrace::hardware
