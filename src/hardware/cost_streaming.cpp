#include "hardware/cost_streaming.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace foretrace::hardware {

namespace {

// Lanes of an SM that a block's few warps keep busy, two operations each (NVIDIA's SMs have four schedulers of 16 lanes or 32): wider SMs need two
// blocks to be of use.
constexpr double kBlockFlops = 128;
// NVIDIA's SMs of 128 lanes issue as many instructions in a clock as those of 64 before them (four schedulers since Volta; Pascal's issued two
// each): the lanes beyond 64 help multiplications, and nothing else a kernel does. How much they do is `beyond_narrow`.
constexpr double kNarrowLanes = 64;
constexpr double kWideLanes = 128;  // of the GPU whose SMs `handled` speaks of

double issuing(double lanes) {
  return lanes > kNarrowLanes ? kNarrowLanes + any_streaming().beyond_narrow * (lanes - kNarrowLanes) : lanes;
}

double issued_tflops(const Device& d) {
  const double clock = d.rated_clock_mhz > 0 ? d.rated_clock_mhz : clock_of(d);
  const double lanes = d.tflops_fp32 * 1e6 / (2.0 * std::max(1, d.rated_sms > 0 ? d.rated_sms : d.sm_count) * clock);
  const bool pascal = d.vendor == "nvidia" && d.compute_major < 7;
  if (pascal || !(lanes > kNarrowLanes)) return d.tflops_fp32;
  return d.tflops_fp32 * issuing(lanes) / lanes;
}

std::string_view name_of(const Work& w, const Pointwise& p) {
  if (p.arithmetic == Arithmetic::kRelayout) return "relayout";
  switch (w.access) {
    case Access::kTransposed:
      return "transposed";
    case Access::kMixedStrided:
      return "mixed strided";
    case Access::kStrided:
      return p.tensors > 1 ? "pieces" : "strided";
    case Access::kMixed:
      return w.family == Family::kCopy ? "cast" : "mixed";
    case Access::kContiguous:
      break;
  }
  switch (p.arithmetic) {
    case Arithmetic::kGelu:
      return w.backward ? "gelu bwd" : "gelu fwd";
    case Arithmetic::kSilu:
      return w.backward ? "silu bwd" : "silu fwd";
    case Arithmetic::kDropout:
      return "dropout";
    case Arithmetic::kFill:
      // Elements of 1 byte, or of 2 and more.
      // One byte to an element, or two and more.
      return w.elements > 0 && w.bytes_written < 2 * static_cast<double>(w.elements) ? "fill bytes" : "fill";
    case Arithmetic::kPlain:
    case Arithmetic::kRelayout:
      break;
  }
  return "plain";
}

}  // namespace

double streaming_us(const Streamed& x, const StreamingWeights& p) {
  return x.start + std::pow(std::pow(x.memory, p.overlap) + std::pow(x.handled, p.overlap), 1 / p.overlap);
}

double elementwise_us(double bytes, double elements, const StreamingWeights& p, const Device& d) {
  const double handled = p.handled > 0 ? elements / handling_rate(p.handled, d) : 0;
  return streaming_us({p.start, stream_us(bytes, d) / p.share, handled}, p);
}

// Blocks of 65,536 elements, at most 320 of them and so many tensors in a launch, by how many lists there are
// (ATen/native/cuda/MultiTensorApply.cuh). Small tensors leave SMs idle, and then one block's time counts, whatever it moves.
double tensor_lists_us(double bytes, double elements, double tensors, double lists, const StreamingWeights& p,
                       const Device& d) {
  constexpr double kBlock = 65536;
  constexpr double kBlocks = 320;
  constexpr std::array<double, 5> kTensors = {110, 64, 48, 36, 30};
  const auto many = static_cast<std::size_t>(std::clamp(lists, 1.0, 4.0));
  const double launches = std::max(std::ceil(tensors / kTensors[many - 1]), std::ceil(elements / kBlock / kBlocks));
  const double block = std::min(kBlock, p.uneven * elements / tensors) / (handling_rate(p.block, d) / d.sm_count);
  return streaming_us({p.start + p.per_list * launches, stream_us(bytes, d) / p.share, launches * block}, p);
}

// Waiting stands where memory does: other threads hide what a thread waits for, as far as there are any.
double direct_convolution_us(double multiplications, double depth, const StreamingWeights& p, const Device& d) {
  return streaming_us({p.start, depth / (p.alone * d.clock_mhz), multiplications / handling_rate(p.handled, d)}, p);
}

double usable_tflops(std::int64_t blocks, const Device& d) {
  const double all = issued_tflops(d);
  if (blocks <= 0) return all;
  const double clock = clock_of(d);
  return std::min(all, static_cast<double>(blocks) * kBlockFlops * clock * 1e-6);
}

double handling_rate(double per_clock, const Device& d) {
  return per_clock * issued_tflops(d) * 1e6 / (2 * issuing(kWideLanes));
}

std::string streaming_kind(const Work& w, const Pointwise& p) {
  std::string kind(name_of(w, p));
  if (kind == "plain" && bytes_of(w.dtype) == 1) return "plain bytes";
  // Elements of one byte were measured in plain copies only: elsewhere those of two are nearest to them. (Measured: transposed copies of a
  // million elements and more in data/h200-operations, 16 shapes, medians: 7.5 ps an element in FP32, 7.0 in half.)
  return kind.append(bytes_of(w.dtype) <= 2 ? " half" : " fp32");
}

const StreamingWeights& any_streaming() {
  static const StreamingWeights kAny = [] {
    const StreamingWeights* found = Laws::shipped().streaming("same kernel", Device{});
    FORETRACE_CHECK(found != nullptr);  // a test reads them
    return *found;
  }();
  return kAny;
}

}  // namespace foretrace::hardware
