#include "whatif/dataflow/block_memory.hpp"

#include <algorithm>

#include "whatif/model/op_chains.hpp"

namespace foretrace::whatif {

// A compiled pass is one operation, which allocates each buffer right before the kernel that fills it: there a block lasts from its
// first launch to the next block's.
std::vector<std::vector<std::size_t>> activations_of(const Model& m, const std::vector<BlockOfLayers>& blocks) {
  const Graph& g = m.graph;
  const trace::Events& events = m.trace->events;
  const bool compiled = blocks.front().name.empty();
  std::vector<std::pair<Ns, Ns>> spans;
  for (const BlockOfLayers& block : blocks) {
    std::pair<Ns, Ns> span{INT64_MAX, INT64_MIN};
    for (const std::uint32_t t : block.forward) {
      EventId event = g.launch[t].valid() ? g.event[g.launch[t].index()] : EventId{};
      if (!compiled && g.op[t].valid()) event = EventId{m.chains->outermost(g.op[t].value)};
      if (!event.valid()) continue;
      span.first = std::min(span.first, events.start[event.index()]);
      span.second = std::max(span.second, m.trace->end(event.index()));
    }
    spans.push_back(span);
  }
  for (std::size_t b = 0; compiled && b + 1 < spans.size(); ++b) spans[b].second = spans[b + 1].first - 1;
  std::vector<std::vector<std::size_t>> held(blocks.size());
  for (std::size_t i = 0; i < m.memory->blocks.size(); ++i) {
    const memory::Block& b = m.memory->blocks[i];
    if (b.stage != memory::Stage::kForward || b.kind != memory::Kind::kActivation || b.op == kNone) continue;
    const Ns asked = b.at > 0 ? b.at : events.start[b.op];  // what an earlier change added has no time of its own
    const auto span =
        std::find_if(spans.begin(), spans.end(), [&](const auto& s) { return s.first <= asked && asked <= s.second; });
    if (span != spans.end()) held[static_cast<std::size_t>(span - spans.begin())].push_back(i);
  }
  return held;
}

}  // namespace foretrace::whatif
