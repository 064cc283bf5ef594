#include "whatif/rewrite/unit_rows.hpp"

namespace foretrace::whatif {

std::map<std::uint32_t, UnitRows> rows_by_unit(const Model& m, const Dataflow& flow, const std::vector<Row>& rows) {
  std::map<std::uint32_t, UnitRows> found;
  for (const Row& r : rows) {
    const std::uint32_t event = m.works[r.work].op_event;
    if (event == kNone) continue;
    if (r.phase == Phase::kBackward) {
      const Dataflow::Backward b = flow.backward_of(event);
      if (b.unit == kNone) continue;
      UnitRows& of = found[b.unit];
      (b.sums ? of.sums : of.backward).push_back(&r);
    } else if (const std::uint32_t unit = flow.unit_of(event); unit != kNone) {
      found[unit].forward.push_back(&r);
    }
  }
  return found;
}

std::uint32_t source_of(const Dataflow& flow, std::uint32_t unit) {
  const std::vector<Input>& inputs = flow.units[unit].inputs;
  return inputs.empty() ? kNone : flow.values[flow.content(inputs.front().value)].producer;
}

}  // namespace foretrace::whatif
