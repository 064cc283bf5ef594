#include <algorithm>
#include <cmath>
#include <limits>

#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/law_conv.hpp"
#include "hardware/spreads.hpp"

namespace foretrace::hardware {

namespace {

struct ModelOfKind {
  const Work& w;
  const Device& d;

  ModelledTime operator()(std::monostate) const { return {}; }
  ModelledTime operator()(const Gemm& k) const { return gemm_model(w, k, d); }
  ModelledTime operator()(const Convolution&) const { return when_tried(measured_model(w, d), w, d); }
  ModelledTime operator()(const Attention&) const { return measured_model(w, d); }
  ModelledTime operator()(const Recurrent&) const { return measured_model(w, d); }
  ModelledTime operator()(const BatchNorm&) const { return measured_or_streamed(); }
  ModelledTime operator()(const Pooling&) const { return measured_or_streamed(); }
  ModelledTime operator()(const Rows&) const { return measured_or_streamed(); }
  ModelledTime operator()(const Gather&) const { return measured_or_streamed(); }
  ModelledTime operator()(const Pointwise& k) const { return pointwise_model(w, k, d); }
  ModelledTime operator()(const MemoryCopy& k) const { return memory_model(w, k, d); }

  // Without any measured kernel like it: half the rate, which nobody measured.
  [[nodiscard]] ModelledTime measured_or_streamed() const {
    if (const ModelledTime told = measured_model(w, d); told.us > 0) return told;
    if (w.elements <= 0 || w.bytes() <= 0) return {};
    return {2 * (empty_kernel_us() + stream_us(w.bytes(), d)), spreads().unmeasured};
  }
};

// Sizes no tensor can have make times that are none.
ModelledTime finite(const ModelledTime& time) { return std::isfinite(time.us) ? time : ModelledTime{}; }

ModelledTime model(const Work& w, const Device& d) { return finite(std::visit(ModelOfKind{w, d}, w.kind)); }

std::int64_t alignment_class(const Work& w) {
  const auto* gemm = std::get_if<Gemm>(&w.kind);
  return gemm == nullptr ? 8 : std::min<std::int64_t>(gemm->alignment(), 8);
}

// Families whose kernel stays alike when shape or element type change: a ratio carries what the model does not know.
bool kernel_stays(const Work& was, const Work& becomes) {
  if (was.family != becomes.family || was.access != becomes.access) return false;
  if (channels_last(was) != channels_last(becomes)) return false;
  // Another precision or alignment class of a product runs other kernels.
  return !is_product(was) || (was.dtype == becomes.dtype && alignment_class(was) == alignment_class(becomes));
}

// Whether work along rows runs in a kernel like those of the tables, which are the framework's own: what a compiler generated (XLA's
// fusions, a sum with all that leads to it) may take a quarter of their time, and grows as its own bytes do. Beyond what one in two
// hundred of the tables' own rows is off, and three standard deviations of its neighbours, it is another's.
bool is_of_the_table(double measured_ns, const Work& was, const ModelledTime& told) {
  if (is_product(was) || !(told.us > 0)) return true;
  return std::abs(std::log(measured_ns / 1e3 / told.us)) <= std::max(spreads().own_kernel, 3 * told.sigma);
}

// Whether a grouped convolution ran group by group although the law says that another kernel would be over first: then it will again.
bool looped_all_the_same(double measured_ns, const Work& was, const Work& becomes, const Device& d) {
  const double us = measured_ns / 1e3;
  return kernel_stays(was, becomes) && was.dtype == becomes.dtype && when_tried({us, 0}, was, d).us < us;
}

// Where the library tries its algorithms on every shape, the one that ran is tried again on another batch: the fastest takes no longer
// than that one does, by the law and what one in ten pairs of batches is beyond it. Where it guesses, half a batch may take twice as
// long: neighbours of other algorithms say so.
double with_its_own_algorithm(double measured_ns, const Work& was, const Work& becomes, const Device& d) {
  const auto* conv = std::get_if<Convolution>(&was.kind);
  const bool again = conv != nullptr && conv->tuned && kernel_stays(was, becomes);
  const double before = again ? convolution_us(was, TransferWeights::shipped(), d) : 0;
  const double after = again ? convolution_us(becomes, TransferWeights::shipped(), d) : 0;
  if (!(before > 0) || !(after > 0)) return std::numeric_limits<double>::infinity();
  return std::exp(spreads().own_algorithm) * measured_ns * after / before;
}

bool same_work(const Work& a, const Work& b) {
  return a.family == b.family && a.dtype == b.dtype && a.out_dtype == b.out_dtype && a.access == b.access &&
         a.backward == b.backward && a.flops == b.flops && a.bytes_read == b.bytes_read &&
         a.bytes_written == b.bytes_written && a.elements == b.elements && a.kind == b.kind;
}

}  // namespace

std::size_t kernels_of(const Work& w, std::size_t measured) {
  // Strict fp32 may loop over groups, images or tiles of an FFT (thousands of kernels in a depthwise layer's gradient). On
  // tensor cores an operation is a product with at most a fill, two layout changes before it and two kernels behind it.
  constexpr std::size_t kProduct = 6;
  if (const auto* rnn = std::get_if<Recurrent>(&w.kind)) {
    return persistent_rnn(w.dtype, *rnn) ? std::min<std::size_t>(measured, w.backward ? 16 : 7) : measured;
  }
  return is_product(w) ? std::min(measured, kProduct) : measured;
}

double roofline_ns(const Work& w, const Device& d) {
  // What fits in L2 may never reach memory, so traffic bounds the time only beyond it.
  const double beyond = std::max(0.0, w.bytes() - d.l2_mb * 1e6);
  const double memory = d.bandwidth_gbs > 0 ? beyond / d.bandwidth_gbs : 0;
  const bool products = is_product(w);
  // Strict fp32 convolutions may use algorithms with fewer multiplications than the definition's (Winograd, FFT).
  const double saving = is_conv(w) && w.dtype == Dtype::kFp32 ? 4.0 : 1.0;
  const double compute = products && d.tflops(w.dtype) > 0 ? w.flops / saving / (d.tflops(w.dtype) * 1e3) : 0;
  return std::max(memory, compute);
}

Cost predict(const Work& work, const Device& device) {
  const ModelledTime m = model(work, device);
  Cost cost;
  if (!(m.us > 0) || !std::isfinite(m.us)) return cost;
  cost.ns = std::max(m.us * 1e3, roofline_ns(work, device));
  cost.sigma = m.sigma;
  cost.origin = graph::Origin::kModelled;
  cost.known = true;
  return cost;
}

Cost rescale(double measured_ns, const Work& was, const Work& becomes, const Device& device) {
  Cost cost;
  if (same_work(was, becomes)) {
    cost.ns = measured_ns;
    cost.origin = graph::Origin::kMeasured;
    cost.sigma = 0;
    cost.known = true;
    return cost;
  }
  // A kernel that was faster than its bytes allow did not move them all, and what it becomes will not either.
  const double bound = measured_ns < roofline_ns(was, device) ? 0 : roofline_ns(becomes, device);
  const ModelledTime before = model(was, device);
  // The operation itself, as it was measured, is one neighbour more of what it becomes. Products have a law, which carries further.
  if (!std::holds_alternative<Gemm>(was.kind) && was.family == becomes.family &&
      is_of_the_table(measured_ns, was, before)) {
    ModelledTime beside = finite(measured_model_beside(becomes, was, measured_ns / 1e3, device));
    if (!looped_all_the_same(measured_ns, was, becomes, device)) beside = when_tried(beside, becomes, device);
    if (beside.us > 0) {
      const double told = std::min(beside.us * 1e3, with_its_own_algorithm(measured_ns, was, becomes, device));
      cost.ns = std::max({told, bound, std::min(measured_ns, empty_kernel_us() * 1e3)});
      cost.sigma = beside.sigma;
      const bool stays = kernel_stays(was, becomes);
      cost.origin = stays ? graph::Origin::kScaled : graph::Origin::kModelled;
      cost.known = true;
      return cost;
    }
  }
  const ModelledTime after = model(becomes, device);
  const bool both = before.us > 0 && after.us > 0;
  if (both && kernel_stays(was, becomes)) {
    const double ratio = after.us / before.us;
    // The floor of a launch does not shrink: below it a ratio would promise time no kernel can take.
    cost.ns = std::max({measured_ns * ratio, bound, std::min(measured_ns, empty_kernel_us() * 1e3)});
    // The further from what was measured, the more of the model's own error remains: all of it at a factor of four, which nobody
    // measured.
    const double distance = std::min(1.0, std::abs(std::log(ratio)) / std::log(4.0));
    cost.sigma = distance * after.sigma;
    cost.origin = graph::Origin::kScaled;
    cost.known = true;
    return cost;
  }
  if (after.us > 0) return predict(becomes, device);
  return cost;
}

}  // namespace foretrace::hardware
