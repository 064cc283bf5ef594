#include <cmath>

#include "whatif/rewrite/compiling.hpp"

namespace foretrace::whatif {

namespace {

bool copies(std::string_view op) {
  return op == "aten::to" || op == "aten::_to_copy" || op == "aten::contiguous" || op == "aten::clone";
}

// Did a copy or a conversion ask for it, by itself or inside another operation?
bool is_copy(const Model& m, const memory::Block& block) {
  for (std::uint32_t e = block.op; e != kNone; e = m.chains->around(e)) {
    if (copies(m.trace->name(e))) return true;
  }
  return false;
}

// The group that a block allocated inside a product belongs to: it holds a copy of what that group wrote.
std::uint32_t group_of_copy(const Model& m, const Dataflow& flow, const FusionPlan& plan, const memory::Block& block,
                            std::uint32_t unit) {
  // Autocast's copies are put there by a change, for the product that reads them.
  if (block.at != 0 && !is_copy(m, block)) return kNone;
  for (const Input& in : flow.units[unit].inputs) {
    const std::int64_t elements = std::llround(static_cast<double>(in.elements) * m.pass_samples);
    if (!memory::could_hold(block, elements * 2) && !memory::could_hold(block, elements * 4)) continue;
    std::uint32_t value = in.value;
    std::uint32_t producer = flow.values[value].producer;
    for (int depth = 0; depth < 64 && producer != kNone && !flow.units[producer].computes; ++depth) {
      if (flow.units[producer].inputs.empty()) break;
      value = flow.units[producer].inputs.front().value;
      producer = flow.values[value].producer;
    }
    if (producer != kNone && plan.group_of_unit[producer] != kNone) return plan.group_of_unit[producer];
  }
  return kNone;
}

}  // namespace

void retain_saved_tensors(Model& m, const Dataflow& flow, const FusionPlan& plan) {
  if (!m.memory) return;
  std::vector<std::vector<memory::Block*>> blocks(plan.fused.size());
  std::vector<double> before(plan.fused.size(), 0);
  for (memory::Block& b : m.memory->blocks) {
    if (b.kind != memory::Kind::kActivation || b.op == kNone || b.bytes == 0) continue;
    const std::uint32_t unit = flow.unit_of(b.op);
    if (unit == kNone) continue;
    std::uint32_t group = plan.group_of_unit[unit];
    if (group == kNone) group = group_of_copy(m, flow, plan, b, unit);
    if (group == kNone) continue;
    blocks[group].push_back(&b);
    before[group] += static_cast<double>(b.bytes);
  }
  for (std::size_t g = 0; g < blocks.size(); ++g) {
    if (before[g] <= 0) continue;
    const double share = plan.fused[g].held / before[g];
    for (memory::Block* b : blocks[g]) b->bytes = static_cast<std::int64_t>(static_cast<double>(b->bytes) * share);
  }
}

}  // namespace foretrace::whatif
