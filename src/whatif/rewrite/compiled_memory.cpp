#include "whatif/rewrite/compiled_memory.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"
#include "whatif/model/op_chains.hpp"

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
  const auto element = static_cast<std::int64_t>(plan.product_size[unit]);
  for (const Input& in : flow.units[unit].inputs) {
    const std::int64_t elements = std::llround(static_cast<double>(in.elements) * m.pass_samples);
    if (element > 0 && !memory::could_hold(block, elements * element)) continue;
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

// Eager code that converts a product's result before it computes with it keeps the converted copy; the compiled kernel reads the
// result itself again, which lives until then.
void keep_what_is_read_again(const Model& m, memory::Curve& c, const Dataflow& flow, const Fused& fused,
                             const std::vector<memory::Block*>& of_group) {
  for (const auto& [product, bytes] : fused.read_again) {
    std::uint32_t until = 0;
    for (const memory::Block* b : of_group) {
      if (memory::could_hold(*b, static_cast<std::int64_t>(2 * bytes)) && is_copy(m, *b)) until = b->freed;
    }
    for (memory::Block& b : c.blocks) {
      if (until == 0) break;
      if (b.kind != memory::Kind::kTemporary || b.stage != memory::Stage::kForward || b.workspace || b.op == kNone ||
          flow.unit_of(b.op) != product || !memory::could_hold(b, static_cast<std::int64_t>(bytes)))
        continue;
      b.kind = memory::Kind::kActivation;
      b.freed = std::max(b.freed, until);
      break;
    }
  }
}

}  // namespace

void keep_what_is_held(Model& m, const Dataflow& flow, const FusionPlan& plan) {
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
    keep_what_is_read_again(m, *m.memory, flow, plan.fused[g], blocks[g]);
    const double share = plan.fused[g].held / before[g];
    for (memory::Block* b : blocks[g]) b->bytes = static_cast<std::int64_t>(static_cast<double>(b->bytes) * share);
  }
}

}  // namespace foretrace::whatif
