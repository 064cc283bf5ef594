// Element-wise kernels, copies, casts and optimizers: what memory and the handling of their elements take, from their sizes. The law is
// that of cost_streaming.cpp, its parameters by kind of access and arithmetic in laws/streaming.csv.

#include <algorithm>
#include <array>
#include <cmath>

#include "hardware/cost_streaming.hpp"

namespace foretrace::hardware {

namespace {

const StreamingWeights* weights_of(std::string_view kind, const Device& d) {
  return Laws::shipped().streaming(kind, d);
}

// Of short kernels it matters more whether their operands are still in L2.
double spread_at(double us, const StreamingWeights& p) { return us < p.short_us ? p.short_spread : p.spread; }

// One operation over a list of tensors (multi_tensor_apply): blocks of 65,536 elements, at most 320 of them and so many tensors in a
// launch, by how many lists there are (ATen/native/cuda/MultiTensorApply.cuh). Small tensors leave SMs idle, and then one block's
// time counts, whatever it moves.
ModelledTime many_tensors(const Work& w, const Pointwise& p, const Device& d) {
  constexpr double kBlock = 65536;
  constexpr double kBlocks = 320;
  constexpr std::array<double, 5> kTensors = {110, 64, 48, 36, 30};
  const double elements = static_cast<double>(w.elements);
  const double tensors = static_cast<double>(p.tensors);
  const double read = std::round(w.bytes_read / elements / static_cast<double>(bytes_of(w.dtype)));
  const auto lists = static_cast<std::size_t>(std::clamp(read, 1.0, 4.0));
  // Parameters, gradients and two states: the whole update in one kernel.
  const StreamingWeights* found = weights_of(lists < 4 ? "lists" : "lists fused", d);
  if (found == nullptr) return {};
  const StreamingWeights& weights = *found;
  const double launches = std::max(std::ceil(tensors / kTensors[lists - 1]), std::ceil(elements / kBlock / kBlocks));
  const double block =
      std::min(kBlock, weights.uneven * elements / tensors) / (handling_rate(weights.block, d) / d.sm_count);
  const Streamed parts{weights.start + weights.per_list * launches, stream_us(w.bytes(), d) / weights.share,
                       launches * block};
  const double us = streaming_us(parts, weights);
  return {us, spread_at(us, weights)};
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
  const double handled =
      weights->handled > 0 ? static_cast<double>(w.elements) / handling_rate(weights->handled, d) : 0;
  const double us = streaming_us({weights->start, stream_us(w.bytes(), d) / weights->share, handled}, *weights);
  return {us, spread_at(us, *weights)};
}

}  // namespace foretrace::hardware
