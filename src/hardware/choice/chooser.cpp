#include "hardware/choice/chooser.hpp"

#include <algorithm>

#include "hardware/architecture.hpp"
#include "hardware/cost_product.hpp"

namespace foretrace::hardware {

std::size_t kernels_of(const Work& w, std::size_t measured) {
  // Strict fp32 may loop over groups, images or tiles of an FFT (thousands of kernels in a depthwise layer's gradient). On
  // tensor cores an operation is a product with at most a fill, two layout changes before it and two kernels behind it.
  constexpr std::size_t kProduct = 6;
  if (const auto* rnn = std::get_if<Recurrent>(&w.kind)) {
    return persistent_rnn(w.dtype, *rnn) ? std::min<std::size_t>(measured, w.backward ? 16 : 7) : measured;
  }
  return is_product(w) ? std::min(measured, kProduct) : measured;
}

bool winograd_can_do(const Convolution& c) {
  return c.groups <= 1 && c.dimensions == 2 && c.kernel_h == 3 && c.kernel_w == 3 && c.stride == 1 && c.dilation == 1;
}

std::vector<LayoutChange> layout_changes(const Work& w, const Device& d) {
  if (product_of(w, d).dtype == Dtype::kFp32) return {};
  std::vector<LayoutChange> changes = layout_changes(w);
  if (architecture_of(d).nchw_results) {
    std::erase_if(changes, [](const LayoutChange& change) { return change.result; });
  }
  return changes;
}

Work in_kernel_layout(const Work& w) { return is_conv(w) && w.dtype != Dtype::kFp32 ? with_layout(w, true) : w; }

bool tries_direct_kernel(const Work& w) {
  const auto* c = std::get_if<Convolution>(&w.kind);
  if (c == nullptr || !c->tuned || c->groups <= 1 || c->depthwise() || c->channels_last) return false;
  // Where the direct kernel was measured (tools/fit_laws.py).
  const double taps = static_cast<double>(c->kernel_h) * static_cast<double>(c->kernel_w);
  return c->stride <= 1 && c->dilation <= 1 && taps > 1 &&
         (w.family == Family::kConvForward || w.family == Family::kConvDataGrad);
}

bool keeps_direct_kernel(double grouped_us, double direct_us, double overlap) {
  return direct_us > 0 && grouped_us > overlap * direct_us;
}

// PyTorch asks cuDNN for its persistent kernel (recurrent weights stay on chip, one launch a layer) in fp16 alone, and only for
// the shapes on its list (ATen/native/cudnn/RNN.cpp).
bool persistent_rnn(Dtype dtype, const Recurrent& r) {
  return dtype == Dtype::kFp16 && r.layers == 1 && r.directions == 1 && r.hidden <= 1024 && r.hidden % 128 == 0 &&
         r.inputs % 128 == 0 && r.batch % 8 == 0 && r.batch <= 128;
}

namespace {

// Of ATen/native/cudnn/RNN.cpp (use_rnn_persist_small_h): by cell, forward and backward.
std::int64_t most_units_kept(const Recurrent& r, bool backward) {
  const bool plain = r.gates == 1;
  return backward ? (plain ? 256 : 128) : (plain ? 384 : 192);
}

}  // namespace

RecurrentKernel recurrent_kernel(const Work& w, const Recurrent& r) {
  if (w.dtype != Dtype::kBf16 && r.hidden <= most_units_kept(r, w.backward)) return RecurrentKernel::kKept;
  return persistent_rnn(w.dtype, r) ? RecurrentKernel::kPersistent : RecurrentKernel::kByStep;
}

std::string_view suffix(RecurrentKernel kernel) {
  switch (kernel) {
    case RecurrentKernel::kKept:
      return " kept";
    case RecurrentKernel::kPersistent:
      return " persistent";
    case RecurrentKernel::kByStep:
      break;
  }
  return "";
}

}  // namespace foretrace::hardware
