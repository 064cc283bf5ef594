#include "whatif/rewrite/workspaces.hpp"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <unordered_map>

#include "hardware/choice/chooser.hpp"
#include "hardware/conv_tensors.hpp"

namespace foretrace::whatif {

namespace {

using work::Convolution;
using work::Work;

// All convolutions that ran, as the works in front of `before` say it.
ScratchUsers users_of(const Model& m, std::size_t before) {
  ScratchUsers all;
  for (std::size_t i = 0; i < before; ++i) {
    const Work& w = m.works[i];
    if (!is_conv(w) || w.op_event == kNone) continue;
    const auto [it, first] = all.try_emplace({w.op_event, w.family}, ScratchUser{w, w, {}});
    if (!first) it->second.now = w;
  }
  if (all.empty()) return all;
  for (std::uint32_t t = 0; t < m.graph.size(); ++t) {
    const Work* w = m.works.of(t);
    if (w == nullptr || !is_conv(*w)) continue;
    if (const auto it = all.find({w->op_event, w->family}); it != all.end()) {
      it->second.kernels.push_back(m.graph.task_name(t));
    }
  }
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
bool is_tensor(const memory::Block& b, const hardware::ConvTensors& t) {
  for (const std::int64_t n : {t.in, t.out, t.filter}) {
    for (const std::int64_t size : {2, 4}) {
      if (std::llabs(b.bytes - saturated_product(n, size)) < memory::kGrain) return true;
    }
  }
  return false;
}

struct Need {
  std::optional<std::int64_t> was, becomes;
};

Need need_of(const ScratchUser& user, const Work& becomes) {
  const hardware::ConvAlgorithm ran = hardware::algorithm_of_kernels(user.kernels);
  const auto bytes = [&](const Work& w) {
    return hardware::scratch_bytes(w, hardware::chosen_algorithm(w, user.recorded, ran));
  };
  return {bytes(user.now), bytes(becomes)};
}

// The new sizes of scratch blocks. A block is recognised by the size its convolution needed before, so all are found before
// anything else changes the curve.
class ScratchPlan {
 public:
  explicit ScratchPlan(const memory::Curve& curve) : curve_(curve) {
    for (std::size_t i = 0; i < curve_.blocks.size(); ++i) {
      const memory::Block& b = curve_.blocks[i];
      if (b.allocated > 0 && b.op != kNone) blocks_of_[b.op].push_back(i);
    }
  }

  void change(std::uint32_t op, const ScratchUser& user, const Work& becomes) {
    const auto mine = blocks_of_.find(op);
    const Need need = need_of(user, becomes);
    if (mine == blocks_of_.end() || !need.becomes) return;
    std::int64_t& most = largest_need_[op];
    most = std::max(most, *need.becomes);
    tensors_.try_emplace(op, hardware::tensors_of(std::get<Convolution>(becomes.kind)));
    if (need.was.value_or(0) == 0) {
      if (*need.becomes > 0) missing_[op] = std::max(missing_[op], *need.becomes);
      return;
    }
    for (const std::size_t i : mine->second) {
      const memory::Block& b = curve_.blocks[i];
      if (resized_.contains(i) || !may_be_scratch(b) || !memory::could_hold(b, *need.was)) continue;
      resize(i, *need.becomes);
      return;
    }
  }

  // Where the old algorithm's need is unknown, any short-lived block that is no tensor counts as its scratch.
  void resize_unexplained() {
    for (const auto& [op, bytes] : largest_need_) {
      for (const std::size_t i : blocks_of_.at(op)) {
        const memory::Block& b = curve_.blocks[i];
        if (!resized_.contains(i) && may_be_scratch(b) && !is_tensor(b, tensors_.at(op))) resize(i, bytes);
      }
      if (bytes > 0) missing_[op] = bytes;
    }
  }

  /// Changes a curve with the same blocks.
  void apply_to(memory::Curve& curve) const {
    for (const auto& [block, bytes] : resized_) curve.blocks[block].bytes = bytes;
    std::vector<memory::Block> added;
    for (const auto& [op, bytes] : missing_) {
      // Parts of an operation run one after the other: the largest scratch counts.
      if (const auto has = largest_block_.find(op); has != largest_block_.end()) {
        std::int64_t& now = curve.blocks[has->second].bytes;
        now = std::max(now, bytes);
        continue;
      }
      const std::uint32_t at = curve.blocks[blocks_of_.at(op).front()].allocated;
      added.push_back({.bytes = bytes,
                       .allocated = at,
                       .freed = at + 1,
                       .stage = at >= curve.backward_from ? memory::Stage::kBackward : memory::Stage::kForward,
                       .op = op,
                       .workspace = true});
    }
    memory::add_blocks(curve, added);
  }

 private:
  void resize(std::size_t block, std::int64_t bytes) {
    const auto [it, first] = largest_block_.try_emplace(curve_.blocks[block].op, block);
    if (!first && bytes > resized_[it->second]) it->second = block;
    resized_[block] = bytes;
  }

  const memory::Curve& curve_;
  std::unordered_map<std::uint32_t, std::vector<std::size_t>>
      blocks_of_;                                                 // operation -> blocks, in order of allocation
  std::map<std::uint32_t, std::int64_t> largest_need_, missing_;  // operation -> bytes of its largest part
  std::unordered_map<std::uint32_t, hardware::ConvTensors> tensors_;
  std::map<std::size_t, std::int64_t> resized_;                   // block -> bytes
  std::unordered_map<std::uint32_t, std::size_t> largest_block_;  // operation -> block
};

}  // namespace

BatchMemory::BatchMemory(const Model& model) : curve_(*model.memory), users_(users_of(model, model.works.size())) {}

memory::Curve BatchMemory::at(double x) const {
  ScratchPlan plan(curve_);
  for (const auto& [place, user] : users_) plan.change(place.first, user, with_batch(user.now, x));
  memory::Curve scaled = curve_;
  memory::scale_batch(scaled, x);
  plan.apply_to(scaled);
  return scaled;
}

void resize_workspaces(Model& m, std::size_t before) {
  if (!m.memory) return;
  ScratchPlan plan(*m.memory);
  const ScratchUsers users = users_of(m, before);
  for (std::size_t i = before; i < m.works.size(); ++i) {
    const Work& w = m.works[i];
    const auto it = is_conv(w) ? users.find({w.op_event, w.family}) : users.end();
    if (it != users.end()) plan.change(w.op_event, it->second, w);
  }
  plan.resize_unexplained();
  plan.apply_to(*m.memory);
}

}  // namespace foretrace::whatif
