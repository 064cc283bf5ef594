// What is asked of a step's dataflow once it is known.

#include <algorithm>

#include "whatif/dataflow/dataflow.hpp"

namespace foretrace::whatif {

std::uint32_t Dataflow::unit_of(std::uint32_t event) const {
  if (trace->events.lane[event] != lane) return kNone;
  const Ns at = trace->events.start[event];
  const auto it = std::upper_bound(begins.begin(), begins.end(), at);
  if (it == begins.begin()) return kNone;
  const auto unit = static_cast<std::uint32_t>(it - begins.begin() - 1);
  return at < std::max(trace->end(units[unit].event), trace->events.start[units[unit].event] + 1) ? unit : kNone;
}

Dataflow::Backward Dataflow::backward_of(std::uint32_t event) const {
  const LaneId where = trace->events.lane[event];
  const Ns at = trace->events.start[event];
  auto it =
      std::upper_bound(nodes.begin(), nodes.end(), std::pair(where.value, at), [](const auto& key, const Node& n) {
        return key.first != n.lane.value ? key.first < n.lane.value : key.second < n.begin;
      });
  if (it == nodes.begin()) return {};
  --it;
  if (it->lane != where || at >= it->end) return {};
  Backward found;
  found.node = it->name;
  found.sums = at < it->work_begin || at >= it->work_end;
  const auto s = std::lower_bound(sequences.begin(), sequences.end(), std::pair(it->sequence, std::uint32_t{0}));
  if (s != sequences.end() && s->first == it->sequence) found.unit = s->second;
  return found;
}

}  // namespace foretrace::whatif
