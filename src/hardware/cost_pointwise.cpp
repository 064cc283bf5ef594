// Element-wise kernels, copies, casts and optimizers: a start, then bytes at the streaming rate or elements at the rate their
// kernel handles them, whichever is longer.

#include <algorithm>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

namespace {

// Elements per clock and SM. Read from tables of 2,623 kernels (4 k to 268 M elements) on an H200, whose 132 SMs at 1.98 GHz
// make 0.26 T elements/s of one a clock; 0 means that memory alone limits.
double handling(const Work& w) {
  const bool half = is_half(w.dtype);
  switch (w.access) {
    case Access::kTransposed:
      return 0.90;  // 0.235 T/s in any type
    case Access::kMixedStrided:
      return 0.75;
    case Access::kStrided:
      // Concatenation 0.26 T/s on pieces of a row; broadcasts and permutations 0.33 T in fp32, 0.39 T in half.
      return w.tensors > 1 ? 1.0 : half ? 1.5 : 1.27;
    case Access::kMixed:
      // Casts to fp32 0.35 T/s; two operands of different types 0.26 T.
      return w.family == Family::kCopy ? 1.34 : 1.0;
    case Access::kContiguous:
      break;
  }
  switch (w.arithmetic) {
    case Arithmetic::kGelu:
      return w.backward ? 2.25 : 3.05;
    case Arithmetic::kSilu:
      return w.backward ? 2.8 : 3.7;
    case Arithmetic::kDropout:
      return half ? 2.35 : 1.40;
    case Arithmetic::kFill:
      return w.elements > 0 && w.bytes_written < 1.5 * static_cast<double>(w.elements) ? 12.4 : half ? 6.5 : 0;
    default:
      return 0;
  }
}

}  // namespace

Model pointwise_model(const Work& w, const Device& d) {
  if (w.family == Family::kMemory) {
    if (w.bytes() <= 0) return {};
    if (!w.host) return {1.0 + stream_us(w.bytes(), d), 0.2};
    if (d.pcie_gbs <= 0) return {};
    return {1.2 + w.bytes_written / (d.pcie_gbs * 1e3), 0.1};  // pinned; pageable memory is slower
  }
  if (w.elements <= 0 || w.bytes() <= 0) return {};
  const double per_clock = handling(w);
  const double elements = static_cast<double>(w.elements);
  const double memory = stream_us(w.bytes(), d);
  const double work = per_clock > 0 ? elements / element_rate(per_clock, d) : 0;
  // A vectorised kernel takes 0.9 us in its shortest form, one with an index calculation 1.7-2.
  double start = w.access == Access::kContiguous ? 0.9 : 1.7;
  if (w.family == Family::kOptimizer && w.tensors > 1) {
    // multi_tensor_apply: blocks of 65,536 elements and a few hundred tensors a launch; 0.80 of the streaming rate (fused Adam
    // 3.4-3.6 of 4.3 TB/s), 3 us a launch of up to 100 tensors.
    return {memory / 0.80 + 3.0 * (1.0 + static_cast<double>(w.tensors) / 100.0), 0.12};
  }
  // On five models' steps, held out: contiguous 4 % (4,100 kernels), casts 6 %, others 12 %.
  const double sigma = w.access == Access::kContiguous ? 0.06 : w.access == Access::kMixed ? 0.08 : 0.2;
  const double us = start + std::max(memory, work);
  return {us, us < 3 ? 0.25 : sigma};
}

}  // namespace foretrace::hardware
