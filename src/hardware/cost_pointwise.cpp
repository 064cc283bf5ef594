// Element-wise kernels, copies, casts and optimizers: what memory and the handling of their elements take, from their sizes. The law is
// that of cost_streaming.cpp, its parameters by kind of access and arithmetic in laws/streaming.csv.

#include <cmath>

#include "hardware/cost_streaming.hpp"

namespace foretrace::hardware {

namespace {

const StreamingWeights* weights_of(std::string_view kind, const Device& d) {
  return Laws::shipped().streaming(kind, d);
}

// Of short kernels it matters more whether their operands are still in L2.
double spread_at(double us, const StreamingWeights& p) { return us < p.short_us ? p.short_spread : p.spread; }

ModelledTime many_tensors(const Work& w, const Pointwise& p, const Device& d) {
  const double elements = static_cast<double>(w.elements);
  const double lists = std::round(w.bytes_read / elements / static_cast<double>(bytes_of(w.dtype)));
  // Parameters, gradients and two states: the whole update in one kernel.
  const StreamingWeights* weights = weights_of(lists < 4 ? "lists" : "lists fused", d);
  if (weights == nullptr) return {};
  const double us = tensor_lists_us(w.bytes(), elements, static_cast<double>(p.tensors), lists, *weights, d);
  return {us, spread_at(us, *weights)};
}

}  // namespace

ModelledTime memory_model(const Work& w, const MemoryCopy& copy, const Device& d) {
  const StreamingWeights* weights = weights_of(copy.host ? "host copy" : "device copy", d);
  if (w.bytes() <= 0 || weights == nullptr || (copy.host && d.pcie_gbs <= 0)) return {};
  // Pinned; pageable memory is slower.
  const double moved = copy.host ? w.bytes_written / (d.pcie_gbs * 1e3) : stream_us(w.bytes(), d);
  const double us = streaming_us({weights->start, moved / weights->share, 0}, *weights);
  return {us, spread_at(us, *weights)};
}

ModelledTime pointwise_model(const Work& w, const Pointwise& p, const Device& d) {
  if (w.elements <= 0 || w.bytes() <= 0) return {};
  if (w.family == Family::kOptimizer && p.tensors > 1) return many_tensors(w, p, d);
  const StreamingWeights* weights = weights_of(streaming_kind(w, p), d);
  if (weights == nullptr) return {};
  const double us = elementwise_us(w.bytes(), static_cast<double>(w.elements), *weights, d);
  return {us, spread_at(us, *weights)};
}

}  // namespace foretrace::hardware
