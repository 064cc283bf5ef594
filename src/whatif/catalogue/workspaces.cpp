#include "whatif/catalogue/workspaces.hpp"

#include <algorithm>
#include <cstdlib>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/saturate.hpp"
#include "hardware/layout_changes.hpp"

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

// While it runs, operands and result of a convolution that its library copies into another layout are there a second time. Of 637
// shapes of full and 174 of grouped convolutions (data/h200-operations) the scratch memory of forward passes and data gradients is
// 1.00 times that in the median for FP16, BF16 and TF32, that of weight gradients 1.04 to 1.16; in NHWC it is none for most.
std::int64_t scratch(const Work& w) {
  std::int64_t elements = 0;
  for (const hardware::LayoutChange& change : hardware::layout_changes(w)) {
    elements = saturated_sum(elements, change.elements);
  }
  return saturated_product(elements, work::bytes_of(w.dtype));
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
    bytes = std::max(bytes, scratch(w));
    tensors[w.op_event] = tensors_of(*conv);
  }
  constexpr std::uint32_t kWithin = 6;                  // memory events of one convolution
  std::unordered_map<std::uint32_t, std::uint32_t> at;  // operation -> where it first allocates
  std::unordered_set<std::uint32_t> had;
  for (memory::Block& b : m.memory->blocks) {
    const auto it = needs.find(b.op);
    if (it == needs.end() || b.allocated == 0) continue;
    at.try_emplace(b.op, b.allocated);
    // Where a step has several passes (a GAN's), scratch of the second forward pass counts as an activation; it is as short.
    const bool scratch = b.kind == memory::Kind::kTemporary || b.kind == memory::Kind::kActivation;
    if (!scratch || b.freed > b.allocated + kWithin) continue;
    const Tensors& t = tensors[b.op];
    bool result = false;
    for (const std::int64_t n : {t.in, t.out, t.weights}) {
      for (const std::int64_t size : {2, 4}) result = result || std::llabs(b.bytes - n * size) < memory::kGrain;
    }
    if (result) continue;
    b.bytes = it->second;
    had.insert(b.op);
  }
  // Strict FP32 mostly needed none.
  std::vector<memory::Block> added;
  for (const auto& [op, from] : at) {
    if (had.contains(op) || needs[op] == 0) continue;
    memory::Block b;
    b.bytes = needs[op];
    b.allocated = from;
    b.freed = from + 1;
    b.stage = from >= m.memory->backward_from ? memory::Stage::kBackward : memory::Stage::kForward;
    b.op = op;
    b.workspace = true;
    added.push_back(b);
  }
  std::sort(added.begin(), added.end(), [](const auto& x, const auto& y) { return x.op < y.op; });
  m.memory->blocks.insert(m.memory->blocks.end(), added.begin(), added.end());
  std::stable_sort(m.memory->blocks.begin(), m.memory->blocks.end(),
                   [](const memory::Block& x, const memory::Block& y) { return x.allocated < y.allocated; });
}

}  // namespace foretrace::whatif
