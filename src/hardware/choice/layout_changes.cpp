#include "hardware/choice/layout_changes.hpp"

#include "hardware/conv_tensors.hpp"

namespace foretrace::hardware {

using work::Convolution;
using work::Dtype;
using work::Family;

namespace {

constexpr std::string_view kToLast = "nchwToNhwcKernel";
constexpr std::string_view kFromLast = "nhwcToNchwKernel";

// Kernels on tensor cores work in NHWC, strict fp32 ones in NCHW: a convolution whose tensors have the other layout copies them.
// What is a product as it is (one tap, no stride, no groups) needs no copy on tensor cores, one channel to a group has kernels for
// both layouts, and strict fp32 has kernels for weight gradients in either.
//
// Of 29,100 forward passes and gradients in data/h200-operations (cuDNN's heuristic) 94 % have copies
// where this says so and none elsewhere, and 88 % as many: of those in half precision and NCHW 92 to 94 %, of weight gradients in tf32 76 %, where cuDNN
// at times takes a kernel that reads NCHW. Groups it may do one after the other, each with copies of its own: here they are three.
bool copies(const work::Work& w, const Convolution& c) {
  const bool strict = w.dtype == Dtype::kFp32 || w.dtype == Dtype::kFp64;
  if (c.channels_last != strict || c.depthwise()) return false;
  if (strict) return w.family != Family::kConvWeightGrad;
  const bool product_as_it_lies = c.kernel_h * c.kernel_w == 1 && c.stride == 1 && c.groups == 1;
  return !product_as_it_lies;
}

}  // namespace

std::vector<LayoutChange> layout_changes(const work::Work& w) {
  const auto* c = std::get_if<Convolution>(&w.kind);
  if (c == nullptr || c->input[0] <= 0 || c->out_channels <= 0 || !copies(w, *c)) return {};
  const ConvTensors t = tensors_of(*c);
  // A filter of one tap is the same in both.
  const std::int64_t in = t.in, out = t.out, filter = c->kernel_h * c->kernel_w > 1 ? t.filter : 0;
  std::vector<LayoutChange> all;
  switch (w.family) {
    case Family::kConvForward:
      all = {{in}, {filter, false, true}, {out, true}};
      break;
    case Family::kConvDataGrad:
      all = {{out}, {filter, false, true}, {in, true}};
      break;
    default:
      all = {{in}, {out}, {filter, true, true}};
      break;
  }
  std::erase_if(all, [](const LayoutChange& change) { return change.elements <= 0; });
  return all;
}

bool is_layout_change(std::string_view kernel) {
  if (kernel.find("chw") == std::string_view::npos) return false;  // nearly all kernels of a step
  for (const std::string_view name :
       {kToLast, kFromLast, std::string_view("nchwToFoldedNhwcKernel"), std::string_view("foldedNhwcToNchwKernel")}) {
    if (kernel.find(name) != std::string_view::npos) return true;
  }
  return false;
}

std::string_view layout_change_name(bool to_channels_last) { return to_channels_last ? kToLast : kFromLast; }

}  // namespace foretrace::hardware
