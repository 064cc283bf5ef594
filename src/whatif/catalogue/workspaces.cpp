#include "whatif/catalogue/workspaces.hpp"

#include <cstdlib>
#include <unordered_map>

namespace foretrace::whatif {

namespace {

using work::Convolution;
using work::Work;

struct Tensors {
  std::int64_t in, out, weights;  // elements
};

Tensors tensors_of(const Convolution& c) {
  const std::int64_t in = c.input[0] * c.input[1] * c.input[2] * c.input[3];
  const std::int64_t out = c.input[0] * c.out_channels * c.out_h * c.out_w;
  return {in, out, c.out_channels * c.input[1] / std::max<std::int64_t>(1, c.groups) * c.kernel_h * c.kernel_w};
}

std::int64_t scratch(const Convolution& c, work::Dtype dtype) {
  const bool product_as_it_is = c.kernel_h * c.kernel_w == 1 && c.stride == 1 && c.groups == 1;
  if (c.channels_last || product_as_it_is || c.depthwise()) return 0;
  const Tensors t = tensors_of(c);
  return (t.in + t.out + t.weights) * work::bytes_of(dtype);
}

}  // namespace

void resize_workspaces(Model& m, std::size_t before) {
  if (!m.memory) return;
  std::unordered_map<std::uint32_t, std::int64_t> needs;  // operation -> scratch bytes, of its largest part
  std::unordered_map<std::uint32_t, Tensors> tensors;
  for (std::size_t i = before; i < m.works.size(); ++i) {
    const Work& w = m.works[i];
    const auto* conv = std::get_if<Convolution>(&w.kind);
    if (conv == nullptr || w.op_event == kNone) continue;
    std::int64_t& bytes = needs[w.op_event];
    bytes = std::max(bytes, scratch(*conv, w.dtype));
    tensors[w.op_event] = tensors_of(*conv);
  }
  constexpr std::int64_t kGrain = 512;
  constexpr std::uint32_t kWithin = 6;  // memory events of one convolution
  for (memory::Block& b : m.memory->blocks) {
    const auto it = needs.find(b.op);
    // Where a step has several passes (a GAN's), scratch of the second forward pass counts as an activation; it is as short.
    const bool scratch = b.kind == memory::Kind::kTemporary || b.kind == memory::Kind::kActivation;
    if (it == needs.end() || !scratch || b.freed > b.allocated + kWithin) continue;
    const Tensors& t = tensors[b.op];
    bool result = false;
    for (const std::int64_t n : {t.in, t.out, t.weights}) {
      for (const std::int64_t size : {2, 4}) result = result || std::llabs(b.bytes - n * size) < kGrain;
    }
    if (!result) b.bytes = std::min(b.bytes, it->second);
  }
}

}  // namespace foretrace::whatif
