// The last pass over an imported trace: lanes get their kind and names, B/E pairs become complete events, arguments are
// decoded.

#include <algorithm>
#include <limits>
#include <string>
#include <unordered_map>

#include "base/decimal.hpp"
#include "trace/importers/chrome_commit.hpp"
#include "trace/importers/json_text.hpp"

namespace foretrace::trace {

namespace {

struct LaneKey {
  char side;  // c, g or e
  std::string_view pid, tid;
};

LaneKey split(std::string_view key) {
  const std::size_t second = key.find('\x1f', 2);
  return {key[0], key.substr(2, second - 2), key.substr(second + 1)};
}

std::int64_t number_of(std::string_view text) { return parse_int64(text).value_or(kAbsent); }

// Lane keys become lanes. Keys of side 'e' (flows, metadata, overhead) join the GPU or CPU lane of the same pid and tid.
std::vector<LaneId> build_lanes(Trace& trace, const StringTable& keys) {
  std::unordered_map<std::string, LaneId> by_key;
  std::vector<LaneId> lane_of(keys.size());
  for (const char side : {'g', 'c', 'e'}) {
    for (std::uint32_t k = 1; k < keys.size(); ++k) {
      const std::string_view key = keys[StringId{k}];
      if (key[0] != side) continue;
      const std::string place(key.substr(1));
      if (side == 'e') {
        const auto gpu = by_key.find("g" + place);
        const auto cpu = by_key.find("c" + place);
        if (gpu != by_key.end() || cpu != by_key.end()) {
          lane_of[k] = gpu != by_key.end() ? gpu->second : cpu->second;
          continue;
        }
      }
      const LaneKey parts = split(key);
      Lane lane;
      lane.kind = side == 'g' ? LaneKind::kGpuStream : side == 'c' ? LaneKind::kCpuThread : LaneKind::kOther;
      lane.pid = trace.strings.intern(unescape(parts.pid));
      lane.tid = trace.strings.intern(unescape(parts.tid));
      lane.pid_number = number_of(parts.pid);
      lane.tid_number = number_of(parts.tid);
      lane.name = lane.process_name = lane.process_labels = trace.strings.intern("");
      lane_of[k] = LaneId{trace.lanes.size()};
      by_key.emplace(std::string(key), lane_of[k]);
      trace.lanes.push_back(lane);
    }
  }
  return lane_of;
}

std::string string_argument(const Trace& trace, std::size_t e, std::string_view key) {
  const auto raw = trace.args.find(trace.events.args[e], key);
  if (!raw) return {};
  if (raw->size() >= 2 && raw->front() == '"') return unescape(std::string_view(*raw).substr(1, raw->size() - 2));
  return *raw;
}

// process_name, thread_name and their like. A process's row applies to all its lanes.
void apply_names(Trace& trace) {
  std::unordered_multimap<std::uint32_t, std::size_t> lanes_of_pid;
  bool indexed = false;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (trace.events.ph[e] != 'M') continue;
    if (!indexed) {
      for (std::size_t l = 0; l < trace.lanes.size(); ++l) lanes_of_pid.emplace(trace.lanes[l].pid.value, l);
      indexed = true;
    }
    const std::string_view what = trace.name(e);
    Lane& lane = trace.lanes[trace.events.lane[e].index()];
    if (what == "thread_name") {
      lane.name = trace.strings.intern(string_argument(trace, e, "name"));
    } else if (what == "thread_sort_index") {
      lane.sort_index = number_of(string_argument(trace, e, "sort_index"));
    } else if (what == "process_name" || what == "process_labels") {
      const bool name = what == "process_name";
      const StringId text = trace.strings.intern(string_argument(trace, e, name ? "name" : "labels"));
      const auto [begin, end] = lanes_of_pid.equal_range(lane.pid.value);
      for (auto it = begin; it != end; ++it) {
        Lane& l = trace.lanes[it->second];
        (name ? l.process_name : l.process_labels) = text;
      }
    }
  }
}

// B and E rows in file order per lane; the B row becomes an X row, the E row stays as a row of phase E without duration.
void join_begin_end(Trace& trace) {
  std::unordered_map<std::uint32_t, std::vector<std::size_t>> open;
  std::uint64_t unmatched = 0;
  std::size_t example = 0;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    const char ph = trace.events.ph[e];
    if (ph == 'B') {
      open[trace.events.lane[e].value].push_back(e);
    } else if (ph == 'E') {
      auto& stack = open[trace.events.lane[e].value];
      if (stack.empty()) {
        example = e;
        ++unmatched;
        continue;
      }
      const std::size_t begin = stack.back();
      stack.pop_back();
      trace.events.ph[begin] = 'X';
      trace.events.duration[begin] = std::max<Ns>(0, trace.events.start[e] - trace.events.start[begin]);
    }
  }
  for (const auto& [lane, stack] : open) {
    unmatched += stack.size();
    if (!stack.empty()) example = stack.front();
  }
  if (unmatched > 0) {
    trace.diagnostics.add("unmatched_begin_end", Severity::kDataLoss, "a begin has no end or an end no begin",
                          trace.name(example), -1, unmatched);
  }
}

}  // namespace

void finish_trace(Trace& trace, const StringTable& lane_keys) {
  const std::vector<LaneId> lane_of = build_lanes(trace, lane_keys);
  bool begin_end = false;
  for (std::size_t e = 0; e < trace.size(); ++e) {
    trace.events.lane[e] = lane_of[trace.events.lane[e].index()];
    begin_end |= trace.events.ph[e] == 'B' || trace.events.ph[e] == 'E';
  }
  if (begin_end) join_begin_end(trace);
  apply_names(trace);
  const std::size_t unreadable = trace.args.decode(trace.strings);
  if (unreadable > 0) {
    trace.diagnostics.add("unreadable_arguments", Severity::kDataLoss,
                          "the arguments of an event are not valid JSON; they are kept as text", {}, -1, unreadable);
  }
}

}  // namespace foretrace::trace
