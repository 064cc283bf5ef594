#include "whatif/dataflow/unit_blocks.hpp"

#include <algorithm>

namespace foretrace::whatif {

using memory::Block;

void UnitBlocks::Span::cover(std::uint32_t position) {
  first = std::min(first, position);
  last = std::max(last, position);
}

UnitBlocks unit_blocks(const memory::Curve& c, const Dataflow& flow,
                       const std::function<bool(const Block&, std::int64_t)>& holds) {
  UnitBlocks out;
  const std::size_t n = flow.units.size();
  out.forward.resize(n);
  out.backward.resize(n);
  out.unit.assign(c.blocks.size(), kNone);
  out.sums.assign(c.blocks.size(), 0);
  out.block_of.assign(flow.values.size(), kNone);
  for (std::size_t i = 0; i < c.blocks.size(); ++i) {
    const Block& b = c.blocks[i];
    if (b.op == kNone || b.allocated == 0) continue;
    if (b.stage == memory::Stage::kForward) {
      const std::uint32_t u = flow.unit_of(b.op);
      if (u == kNone) continue;
      out.unit[i] = u;
      out.forward[u].cover(b.allocated);
      // A copy inside: as large as an input, not the result.
      if (b.kind == memory::Kind::kActivation && flow.trace->name(b.op) != "aten::empty_strided")
        out.inner.push_back(i);
      for (const std::uint32_t v : flow.units[u].outputs) {
        if (holds(b, work::elements_of(flow.values[v].shape)) && !flow.values[v].shape.empty())
          out.block_of[v] = static_cast<std::uint32_t>(i);
      }
    } else if (b.stage == memory::Stage::kBackward) {
      const Dataflow::Backward back = flow.backward_of(b.op);
      out.unit[i] = back.unit;
      out.sums[i] = back.sums ? 1 : 0;
      if (back.unit != kNone) out.backward[back.unit].cover(b.allocated);
    }
  }
  UnitBlocks::Span at{0, 0};
  for (std::size_t u = 0; u < n; ++u) {
    if (!out.forward[u].known()) out.forward[u] = {at.last, at.last};
    at = out.forward[u];
  }
  at = {c.backward_from, c.backward_from};
  for (std::size_t u = n; u-- > 0;) {
    if (!out.backward[u].known()) out.backward[u] = {at.last + 1, at.last + 1};
    at = out.backward[u];
  }
  return out;
}

void AddedBlocks::add(std::uint32_t unit, std::int64_t bytes, std::uint32_t from, std::uint32_t to, memory::Kind kind,
                      memory::Stage stage, bool workspace) {
  if (bytes <= 0 || to <= from) return;
  memory::Block b;
  b.bytes = bytes;
  b.allocated = from;
  b.freed = to;
  b.kind = kind;
  b.stage = stage;
  b.op = flow_.units[unit].event;
  b.workspace = workspace;
  blocks_.push_back(b);
}

void AddedBlocks::put_into(memory::Curve& curve) const {
  curve.blocks.insert(curve.blocks.end(), blocks_.begin(), blocks_.end());
  std::stable_sort(curve.blocks.begin(), curve.blocks.end(),
                   [](const memory::Block& a, const memory::Block& b) { return a.allocated < b.allocated; });
}

}  // namespace foretrace::whatif
