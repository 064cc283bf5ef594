#include "capture.hpp"

#include <algorithm>
#include <cstdint>
#include <map>

namespace foretrace::inject {
namespace {

bool is_call(const Record& record, const Names& names, std::string_view name) {
  if (record.kind != Kind::kRuntime && record.kind != Kind::kDriver) return false;
  const std::string_view text = names.text(record.name);
  return text.starts_with("cu") && text.find(name) != std::string_view::npos;
}

/// Moments of the program, and the numbers of the calls made then: records of events have no time of their own.
struct Window {
  std::uint64_t from = UINT64_MAX, to = 0;
  std::uint32_t first_call = 0, last_call = UINT32_MAX;

  bool holds(const Record& record) const {
    if (record.kind == Kind::kEvent) return record.correlation >= first_call && record.correlation <= last_call;
    return record.start >= from && record.start < to;
  }
};

Window window_of(const Activities& activities) {
  Window out;
  for (const Record& record : activities.records) {
    if (is_call(record, activities.names, "ProfilerStart") && record.end < out.from) {
      out.from = record.end;
      out.first_call = record.correlation;
    }
  }
  for (const Record& record : activities.records) {
    if (is_call(record, activities.names, "ProfilerStop") && record.start > std::max(out.to, out.from)) {
      out.to = record.start;
      out.last_call = record.correlation;
    }
  }
  if (out.to == 0) out.to = UINT64_MAX;
  return out;
}

}  // namespace

void keep_captured(Activities& activities) {
  const Window window = window_of(activities);
  if (window.from == UINT64_MAX) return;
  std::map<std::uint32_t, Record> held;
  for (const Record& record : activities.records) {
    if (record.kind != Kind::kMemory || record.start >= window.from) continue;
    Record& sum = held[record.device];
    sum.kind = Kind::kMemory;
    sum.device = record.device;
    sum.context = record.context;
    sum.start = sum.end = window.from;
    sum.bytes += record.bytes;
  }
  std::erase_if(activities.records, [&](const Record& record) { return !window.holds(record); });
  for (const auto& [device, sum] : held) activities.records.push_back(sum);
}

}  // namespace foretrace::inject
