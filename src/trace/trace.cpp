#include "foretrace/trace/trace.hpp"

#include <fmt/format.h>

#include "trace/event_columns.hpp"

namespace foretrace::trace {

std::size_t Events::bytes() const {
  std::size_t sum = 0;
  each_column(*this, [&](const auto& column) { sum += column.bytes(); });
  return sum;
}

std::string_view Trace::metadata_value(std::string_view key) const {
  for (const auto& [k, v] : metadata) {
    if (k == key) return v;
  }
  return {};
}

std::string Trace::lane_label(LaneId id) const {
  const Lane& lane = lanes[id.index()];
  if (lane.kind == LaneKind::kGpuStream) return fmt::format("GPU {} stream {}", strings[lane.pid], strings[lane.tid]);
  const std::string_view name = strings[lane.name];
  const std::string_view what = lane.kind == LaneKind::kCpuThread ? "thread" : "row";
  std::string label = fmt::format("{} {}", what, strings[lane.tid]);
  // Kineto names threads "thread 442 (python)"; only what the number does not say is worth repeating.
  if (!name.empty() && name != label)
    label = name.starts_with("thread ") ? std::string(name) : fmt::format("{} ({})", label, name);
  return label;
}

std::size_t Trace::bytes() const {
  return events.bytes() + strings.bytes() + args.bytes() + op_ids.bytes() + python_ids.bytes() + memory_ids.bytes() +
         sync_ids.bytes() + copy_ids.bytes() + lanes.size() * sizeof(Lane);
}

}  // namespace foretrace::trace
