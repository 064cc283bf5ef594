#include "whatif/catalogue/workspaces.hpp"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include "base/saturate.hpp"
#include "hardware/conv_algorithm.hpp"

namespace foretrace::whatif {

namespace {

using work::Convolution;
using work::Work;

struct Tensors {
  std::int64_t in, out, weights;  // elements
};

Tensors tensors_of(const Convolution& c) {
  return {saturated_product({c.input[0], c.input[1], c.input[2], c.input[3]}),
          saturated_product({c.input[0], c.out_channels, c.out_h, c.out_w}),
          saturated_product({c.out_channels, c.channels_per_group(), c.kernel_h, c.kernel_w})};
}

// A convolution or a gradient that a change gave another description.
struct Changed {
  const Work* recorded = nullptr;  // as the trace has it
  const Work* was = nullptr;       // before this change
  const Work* becomes = nullptr;
  std::vector<std::string_view> kernels;
};
using Place = std::pair<std::uint32_t, work::Family>;  // operation, pass

std::map<Place, Changed> changed_convolutions(const Model& m, std::size_t before) {
  std::map<Place, Changed> all;
  for (std::size_t i = before; i < m.works.size(); ++i) {
    const Work& w = m.works[i];
    if (is_conv(w) && w.op_event != kNone) all[{w.op_event, w.family}].becomes = &w;
  }
  if (all.empty()) return all;
  for (std::size_t i = 0; i < before; ++i) {
    const Work& w = m.works[i];
    const auto it = all.find({w.op_event, w.family});
    if (it == all.end()) continue;
    if (it->second.recorded == nullptr) it->second.recorded = &w;
    it->second.was = &w;
  }
  for (std::uint32_t t = 0; t < m.graph.size(); ++t) {
    const Work* w = m.works.of(t);
    if (w == nullptr || !is_conv(*w)) continue;
    if (const auto it = all.find({w->op_event, w->family}); it != all.end()) {
      it->second.kernels.push_back(m.graph.task_name(t));
    }
  }
  std::erase_if(all, [](const auto& item) { return item.second.was == nullptr; });
  return all;
}

// Blocks that an operation had only while it ran. Where a step has several passes (a GAN's), scratch of the second forward pass counts
// as an activation; it is as short.
bool may_be_scratch(const memory::Block& b) {
  constexpr std::uint32_t kWithin = 6;  // memory events of one convolution
  const bool short_kind = b.kind == memory::Kind::kTemporary || b.kind == memory::Kind::kActivation;
  return b.allocated > 0 && short_kind && b.freed <= b.allocated + kWithin;
}

// As large as an operand or the result in some element type.
bool is_tensor(const memory::Block& b, const Tensors& t) {
  for (const std::int64_t n : {t.in, t.out, t.weights}) {
    for (const std::int64_t size : {2, 4}) {
      if (std::llabs(b.bytes - saturated_product(n, size)) < memory::kGrain) return true;
    }
  }
  return false;
}

struct Need {
  std::optional<std::int64_t> was, becomes;
};

Need need_of(const Changed& c) {
  const hardware::ConvAlgorithm ran = hardware::algorithm_by(c.kernels);
  const auto bytes = [&](const Work& w) {
    return hardware::scratch_bytes(w, hardware::algorithm_of(w, *c.recorded, ran));
  };
  return {bytes(*c.was), bytes(*c.becomes)};
}

memory::Block scratch_block(const memory::Curve& curve, std::uint32_t op, std::uint32_t at, std::int64_t bytes) {
  memory::Block b;
  b.bytes = bytes;
  b.allocated = at;
  b.freed = at + 1;
  b.stage = at >= curve.backward_from ? memory::Stage::kBackward : memory::Stage::kForward;
  b.op = op;
  b.workspace = true;
  return b;
}

class Planner {
 public:
  Planner(const Model& m, std::size_t before, bool also_unexplained)
      : curve_(*m.memory), also_unexplained_(also_unexplained) {
    const std::map<Place, Changed> changed = changed_convolutions(m, before);
    for (const auto& [place, c] : changed) blocks_of_[place.first];
    for (std::size_t i = 0; i < curve_.blocks.size(); ++i) {
      const auto it = blocks_of_.find(curve_.blocks[i].op);
      if (it != blocks_of_.end() && curve_.blocks[i].allocated > 0) it->second.push_back(i);
    }
    for (const auto& [place, c] : changed) match(place.first, c);
    if (also_unexplained_) take_the_rest();
    for (const auto& [op, bytes] : missing_) {
      if (!had_.contains(op)) sizes_.added.push_back(scratch_block(curve_, op, first_of(op), bytes));
    }
  }

  ScratchSizes sizes_;

 private:
  [[nodiscard]] std::uint32_t first_of(std::uint32_t op) { return curve_.blocks[blocks_of_[op].front()].allocated; }

  void match(std::uint32_t op, const Changed& c) {
    const std::vector<std::size_t>& mine = blocks_of_[op];
    const Need need = need_of(c);
    if (mine.empty() || !need.becomes) return;
    std::int64_t& most = most_[op];
    most = std::max(most, *need.becomes);
    tensors_.try_emplace(op, tensors_of(std::get<Convolution>(c.becomes->kind)));
    if (need.was.value_or(0) == 0) {
      if (*need.becomes > 0) missing_[op] = std::max(missing_[op], *need.becomes);
      return;
    }
    for (const std::size_t i : mine) {
      const memory::Block& b = curve_.blocks[i];
      if (taken_.contains(i) || !may_be_scratch(b) || !memory::could_hold(b, *need.was)) continue;
      take(i, *need.becomes);
      return;
    }
  }

  // What its old algorithm needed is not known: all that is told is that it was no tensor.
  void take_the_rest() {
    for (const auto& [op, bytes] : most_) {
      for (const std::size_t i : blocks_of_[op]) {
        const memory::Block& b = curve_.blocks[i];
        if (!taken_.contains(i) && may_be_scratch(b) && !is_tensor(b, tensors_.at(op))) take(i, bytes);
      }
      if (!had_.contains(op) && bytes > 0) missing_[op] = bytes;
    }
  }

  void take(std::size_t block, std::int64_t bytes) {
    sizes_.blocks.emplace_back(block, bytes);
    taken_.insert(block);
    had_.insert(curve_.blocks[block].op);
  }

  const memory::Curve& curve_;
  bool also_unexplained_;
  std::map<std::uint32_t, std::vector<std::size_t>> blocks_of_;  // operation -> blocks, in order of allocation
  std::map<std::uint32_t, std::int64_t> most_, missing_;         // operation -> bytes of its largest part
  std::unordered_map<std::uint32_t, Tensors> tensors_;
  std::unordered_set<std::size_t> taken_;
  std::unordered_set<std::uint32_t> had_;
};

}  // namespace

ScratchSizes scratch_sizes(const Model& m, std::size_t before) {
  return m.memory ? Planner(m, before, false).sizes_ : ScratchSizes{};
}

void give(memory::Curve& curve, const ScratchSizes& sizes) {
  for (const auto& [block, bytes] : sizes.blocks) curve.blocks[block].bytes = bytes;
  curve.blocks.insert(curve.blocks.end(), sizes.added.begin(), sizes.added.end());
  std::stable_sort(curve.blocks.begin(), curve.blocks.end(),
                   [](const memory::Block& x, const memory::Block& y) { return x.allocated < y.allocated; });
}

void resize_workspaces(Model& m, std::size_t before) {
  if (m.memory) give(*m.memory, Planner(m, before, true).sizes_);
}

}  // namespace foretrace::whatif
