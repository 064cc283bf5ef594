#include <cmath>

#include "base/text.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/rewrite/compiling.hpp"

namespace foretrace::whatif {

namespace {

// Did a copy or a conversion ask for it, by itself or inside another operation?
bool is_copy(const Model& m, const memory::Block& block) {
  for (std::uint32_t e = block.op; e != kNone; e = m.chains->around(e)) {
    const std::string_view op = m.trace->name(e);
    if (op == "aten::to" || op == "aten::_to_copy" || op == "aten::contiguous" || op == "aten::clone") return true;
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
    const std::uint32_t producer = flow.values[flow.content(in.value)].producer;
    if (producer != kNone && plan.group_of_unit[producer] != kNone) return plan.group_of_unit[producer];
  }
  return kNone;
}

}  // namespace

void retain_saved_tensors(Model& m, const Dataflow& flow, const FusionPlan& plan) {
  if (!m.memory) return;
  std::vector<std::pair<std::uint32_t, memory::Block*>> kept;  // group, block
  std::vector<double> before(plan.fused.size(), 0);
  for (memory::Block& b : m.memory->blocks) {
    if (b.kind != memory::Kind::kActivation || b.op == kNone || b.bytes == 0) continue;
    const std::uint32_t unit = flow.unit_of(b.op);
    if (unit == kNone) continue;
    std::uint32_t group = plan.group_of_unit[unit];
    if (group == kNone) group = group_of_copy(m, flow, plan, b, unit);
    if (group == kNone) continue;
    kept.emplace_back(group, &b);
    before[group] += static_cast<double>(b.bytes);
  }
  for (const auto& [group, block] : kept)
    block->bytes =
        static_cast<std::int64_t>(static_cast<double>(block->bytes) * (plan.fused[group].held / before[group]));
}

}  // namespace foretrace::whatif
