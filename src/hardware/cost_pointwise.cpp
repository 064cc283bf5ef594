// Element-wise kernels, copies, casts and optimizers: a start, then bytes at the streaming rate or elements at the rate their
// kernel handles them, whichever is longer.

#include <algorithm>
#include <cmath>

#include "hardware/cost_models.hpp"

namespace foretrace::hardware {

namespace {

// Elements per clock and SM. Read from tables of 2,623 kernels (4 k to 268 M elements) on an H200, whose 132 SMs at 1.98 GHz
// make 0.26 T elements/s of one a clock; 0 means that memory alone limits.
double handling(const Work& w, const Pointwise& p) {
  const bool half = is_half(w.dtype);
  // Tiles through shared memory: 0.46 T elements/s in fp32, 0.58 T in half. 12,644 launches of cuDNN's own conversions in
  // data/h200-operations, start included: 7 to 12 % off in the median by type and direction, 11 to 23 % on average.
  if (p.arithmetic == Arithmetic::kRelayout) return half ? 2.2 : 1.77;
  switch (w.access) {
    case Access::kTransposed:
      return 0.60;  // 0.15 T/s in any type: keys of attention, channels-first to channels-last, 2-D transposes
    case Access::kMixedStrided:
      return 0.75;
    case Access::kStrided:
      // Concatenation 0.26 T/s on pieces of a row; broadcasts and permutations 0.33 T in fp32, 0.39 T in half.
      return p.tensors > 1 ? 1.0 : half ? 1.5 : 1.27;
    case Access::kMixed:
      // Casts to fp32 0.35 T/s; two operands of different types 0.26 T.
      return w.family == Family::kCopy ? 1.34 : 1.0;
    case Access::kContiguous:
      break;
  }
  switch (p.arithmetic) {
    case Arithmetic::kGelu:
      return w.backward ? 2.25 : 3.05;
    case Arithmetic::kSilu:
      return w.backward ? 2.8 : 3.7;
    case Arithmetic::kDropout:
      return half ? 2.35 : 1.40;
    case Arithmetic::kFill:
      return w.elements > 0 && w.bytes_written < 1.5 * static_cast<double>(w.elements) ? 12.4 : half ? 6.5 : 0;
    case Arithmetic::kPlain:
    case Arithmetic::kRelayout:
      break;
  }
  return 0;
}

// One operation over a list of tensors (multi_tensor_apply): blocks of 65,536 elements, a launch for about 100 pointers or 320
// blocks. Small tensors leave SMs idle, and then one block's time counts: 31 us whatever it moves. Nine optimizer updates over
// eight sets of parameters, 4 to 400 tensors: mean error 8 %.
ModelledTime many_tensors(const Work& w, const Pointwise& p, const Device& d) {
  constexpr double kBlock = 65536;
  const double elements = static_cast<double>(w.elements);
  const double tensors = static_cast<double>(p.tensors);
  const double lists =
      std::clamp(std::round(w.bytes_read / elements / static_cast<double>(bytes_of(w.dtype))), 1.0, 4.0);
  const double launches = std::max(std::ceil(tensors * lists / 100), std::ceil(elements / kBlock / 320));
  const double block = std::min(kBlock, elements / tensors) / element_rate(1.07, d) * d.sm_count;
  return {std::max(1.2 * stream_us(w.bytes(), d), launches * block) + 2 * launches, 0.1};
}

}  // namespace

ModelledTime memory_model(const Work& w, const MemoryCopy& copy, const Device& d) {
  if (w.bytes() <= 0) return {};
  if (!copy.host) return {1.0 + stream_us(w.bytes(), d), w.bytes() < 1e6 ? 0.4 : 0.15};
  if (d.pcie_gbs <= 0) return {};
  // Pinned; pageable memory is slower.
  return {1.2 + w.bytes_written / (d.pcie_gbs * 1e3), w.bytes_written < 1e6 ? 0.4 : 0.1};
}

ModelledTime pointwise_model(const Work& w, const Pointwise& p, const Device& d) {
  if (w.elements <= 0 || w.bytes() <= 0) return {};
  const double per_clock = handling(w, p);
  const double elements = static_cast<double>(w.elements);
  const double memory = stream_us(w.bytes(), d);
  const double work = per_clock > 0 ? elements / element_rate(per_clock, d) : 0;
  // A vectorised kernel takes 0.9-1.4 us in its shortest form, one with an index calculation 1.7-2.
  const double start = w.access == Access::kContiguous ? 1.1 : 1.8;
  if (w.family == Family::kOptimizer && p.tensors > 1) return many_tensors(w, p, d);
  // On five models' steps, held out: contiguous 3.3 % of the time, casts 7 %, others 9 %; more below ten microseconds, where
  // it matters whether the operands are still in L2.
  const double us = start + std::max(memory, work);
  const double sigma = w.access == Access::kContiguous ? 0.06 : w.access == Access::kMixed ? 0.08 : 0.15;
  return {us, us < 3 ? 0.25 : us < 12 ? std::max(sigma, 0.16) : sigma};
}

}  // namespace foretrace::hardware
