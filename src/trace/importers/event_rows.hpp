#pragma once
// Rows for a trace, one by one: for importers that do not go through the Chrome reader. It keeps the columns at the same
// length and reuses categories and lanes.

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

struct EventRow {
  Ns start = 0, duration = 0;
  StringId name;
  LaneId lane;
  std::uint16_t category = 0;
  ArgsId args = {};
  std::int64_t correlation = kAbsent;
  std::int64_t external_id = kAbsent;
  std::uint32_t side = kNone;
  char ph = 'X';
};

// Argument tuples repeat; the numbers they are made of are cheaper to compare than their text.
template <std::size_t N>
class ArgumentTuples {
 public:
  using Key = std::array<std::int64_t, N>;
  template <class Make>
  ArgsId find(ArgsTable& table, const Key& key, Make make) {
    const auto [it, inserted] = known_.try_emplace(key, ArgsId{});
    if (inserted) it->second = table.intern(make(key));
    return it->second;
  }

 private:
  struct Hash {
    std::size_t operator()(const Key& key) const {
      return StringTable::hash({reinterpret_cast<const char*>(key.data()), sizeof(Key)});
    }
  };
  std::unordered_map<Key, ArgsId, Hash> known_;
};

class EventRows {
 public:
  explicit EventRows(Trace& trace) : t_(trace) {}

  void add(const EventRow& row) {
    Events& e = t_.events;
    e.start.push_back(row.start);
    e.duration.push_back(row.duration);
    e.name.push_back(row.name);
    e.lane.push_back(row.lane);
    e.args.push_back(row.args);
    e.correlation.push_back(row.correlation);
    e.external_id.push_back(row.external_id);
    e.side.push_back(row.side);
    e.category.push_back(row.category);
    e.ph.push_back(row.ph);
  }
  /// The row a side table gets next; `add` the event with it.
  template <class T>
  static std::uint32_t side(Column<T>& table, const T& value) {
    table.push_back(value);
    return static_cast<std::uint32_t>(table.size() - 1);
  }

  std::uint16_t category(std::string_view name, EventKind kind) {
    const StringId id = t_.strings.intern(name);
    for (std::size_t c = 0; c < t_.categories.size(); ++c) {
      if (t_.categories[c].name == id && t_.categories[c].kind == kind) return static_cast<std::uint16_t>(c);
    }
    t_.categories.push_back({id, kind});
    return static_cast<std::uint16_t>(t_.categories.size() - 1);
  }

  /// The lane of a thread (its process), of a stream (its GPU) or of something else, made when it is new.
  LaneId lane(LaneKind kind, std::int64_t pid, std::int64_t tid) {
    const auto [it, inserted] = lanes_.try_emplace({static_cast<int>(kind), pid, tid}, LaneId{t_.lanes.size()});
    if (inserted) {
      Lane lane;
      lane.kind = kind;
      lane.pid_number = pid;
      lane.tid_number = tid;
      lane.pid = t_.strings.intern(std::to_string(pid));
      lane.tid = t_.strings.intern(std::to_string(tid));
      lane.name = lane.process_name = lane.process_labels = t_.strings.intern("");
      t_.lanes.push_back(lane);
    }
    return it->second;
  }

 private:
  Trace& t_;
  std::map<std::tuple<int, std::int64_t, std::int64_t>, LaneId> lanes_;
};

}  // namespace foretrace::trace
