// Reductions, embeddings and losses: memory traffic, and what their kernels lose on rows that are short, few or scattered.

#include <algorithm>
#include <cmath>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

// Read from 140 measured sums (4 k to 268 M elements; 768 and 4096 columns, single rows, image planes) and the bias gradients
// of four models; on five other models' steps 14 %.
ModelledTime reduction_model(const Work& w, const Rows& r, const Device& d) {
  if (w.elements <= 0 || d.sm_count <= 0) return {};
  const double elements = static_cast<double>(w.elements);
  const double memory = stream_us(w.bytes(), d);
  if (w.access == Access::kContiguous) {
    // Along rows. A short row leaves most of a warp idle: 64 elements at a fraction of the rate of 400 and more.
    const double per_clock = std::min(6.5, 0.0153 * static_cast<double>(r.columns));
    return {(r.rows <= 16 ? 4.5 : 2.2) + std::max(memory, elements / element_rate(std::max(per_clock, 0.05), d)), 0.2};
  }
  // Planes of every sample: the bias gradient of a convolution, 0.68 T elements/s in any type.
  if (w.access == Access::kTransposed) {
    return {3.0 + std::max(memory, elements / element_rate(2.6, d)), elements < 1e7 ? 0.6 : 0.2};
  }
  // Along columns (the bias gradient of a linear layer): few outputs keep few SMs busy, and what they lose grows with the
  // number of elements until these fill the device.
  const double columns = std::clamp(static_cast<double>(r.rows), 96.0, 65536.0);
  const double lost = 50 * std::sqrt(768 / columns) * std::min(1.0, std::pow(elements / 50e6, 0.6));
  return {2.0 + memory + lost * (132.0 / d.sm_count), 0.2};
}

ModelledTime embedding_model(const Work& w, const Gather& r, const Device& d) {
  if (w.elements <= 0 || d.sm_count <= 0) return {};
  const double elements = static_cast<double>(w.elements);
  if (!w.backward) return {1.5 + 0.85 * stream_us(w.bytes(), d), 0.2};
  // Few indices: one kernel walks them. Many: sort, find runs, add: 29 kernels, most of them launch-bound.
  if (r.rows <= 768) return {1.5 + 0.026 * static_cast<double>(r.rows), 0.25};
  return {100 + elements / element_rate(0.46, d), 0.25};
}

ModelledTime loss_model(const Work& w, const Rows& r, const Device& d) {
  if (w.elements <= 0 || d.sm_count <= 0) return {};
  // nll_loss: one block walks all rows, 32 at a time (18 us from 4,096 rows on, gradient 10 us). Others stream.
  const double rows = static_cast<double>(r.rows);
  if (w.bytes() > 0 && w.bytes() < static_cast<double>(w.elements)) {
    const double full = std::min(1.0, rows / 4096);
    return {w.backward ? 2 + 7.6 * full : 3 + 15.5 * full, 0.2};
  }
  return {3.0 + stream_us(w.bytes(), d), 0.3};
}

}  // namespace foretrace::hardware
