#include "whatif/model/memory_positions.hpp"

#include <algorithm>

namespace foretrace::whatif {

MemoryPositions::MemoryPositions(const Model& m) : g_(m.graph) {
  for (std::uint32_t t = 0; t < g_.size(); ++t) {
    if (g_.kind[t] != graph::TaskKind::kCall || !g_.event[t].valid()) continue;
    begin_ = m.trace->events.start[g_.event[t].index()] - g_.measured[t];
    break;
  }
  for (const memory::Block& b : m.memory->blocks) {
    if (b.at > 0) known_.emplace_back(b.at, b.allocated);
  }
  std::sort(known_.begin(), known_.end());
}

std::uint32_t MemoryPositions::of(std::uint32_t task) const {
  if (task == kNone || !g_.launch[task].valid()) return 0;
  return at(g_.measured[g_.launch[task].index()]);
}

std::uint32_t MemoryPositions::at(Ns since_begin) const {
  const auto next = std::lower_bound(known_.begin(), known_.end(), std::pair(begin_ + since_begin, std::uint32_t{0}));
  return next == known_.end() ? (known_.empty() ? 0 : known_.back().second) : next->second;
}

}  // namespace foretrace::whatif
