#include "trace/importers/chrome_record.hpp"

#include "trace/importers/chrome_numbers.hpp"

namespace foretrace::trace {

namespace {

// Which row a lane key is looked up under: CPU thread, GPU stream, or whichever of the two exists.
char lane_side(EventKind kind) {
  using enum EventKind;
  if (is_gpu_row(kind)) return 'g';
  const bool cpu = kind == kOp || kind == kAnnotation || kind == kRuntime || kind == kPython || kind == kMemory;
  return cpu ? 'c' : 'e';
}

}  // namespace

std::uint16_t RecordSink::category_of(const Record& record, EventKind& kind) {
  // Instants are distinguished by name, and so are ranges among operations: the cache has two rows for them.
  const bool memory = record.ph == 'i' && record.name == "[memory]";
  const bool range = record.ph == 'X' && is_range_among_ops(record.name);
  const std::size_t phase = memory ? 127 : range ? 126 : static_cast<std::size_t>(record.ph) & 127;
  if (category_texts[last_category] != record.category) last_category = category_texts.intern(record.category);
  const StringId text = last_category;
  const std::size_t slot = text.index() * 128 + phase;
  if (slot >= category_cache.size()) category_cache.resize(category_texts.size() * 128, -1);
  std::int32_t& cached = category_cache[slot];
  if (cached < 0) {
    kind = event_kind(record.category, record.ph, record.name);
    std::string key(record.category);
    key += '\x1f';
    key += static_cast<char>('A' + static_cast<int>(kind));
    // More than 65,535 distinct categories is no profiler's work; they share the last one.
    const StringId local = tables.categories.intern(key);
    cached = static_cast<std::int32_t>((local.value < 0xFFFF ? local.value : 0xFFFFu) << 8 |
                                       static_cast<std::uint32_t>(kind));
  }
  kind = static_cast<EventKind>(cached & 0xFF);
  return static_cast<std::uint16_t>(cached >> 8);
}

LaneId RecordSink::lane_of(const Record& r, char side) {
  // Neighbouring events mostly share their lane: compare with the last one's key before looking it up.
  const std::size_t size = 3 + r.pid.size() + r.tid.size();
  const std::string_view last = lane;
  const bool same = last.size() == size && last[0] == side && last.substr(2, r.pid.size()) == r.pid &&
                    last[2 + r.pid.size()] == '\x1f' && last.substr(3 + r.pid.size()) == r.tid;
  if (!same) {
    lane.assign(1, side);
    lane += '\x1f';
    lane.append(r.pid);
    lane += '\x1f';
    lane.append(r.tid);
    last_lane = LaneId{tables.lanes.intern(lane).value};
  }
  return last_lane;
}

std::uint32_t RecordSink::side_row(Record& r, EventKind kind) {
  using enum IdArg;
  const auto any = [&](auto... ids) { return (r.has(ids) || ...); };
  const auto row = [](auto& table, auto value) {
    table.push_back(value);
    return static_cast<std::uint32_t>(table.size() - 1);
  };
  switch (side_table(kind)) {
    case SideTable::kOp:
      if (!any(kRecordFunctionId, kSequenceNumber, kEventIndex)) break;
      return row(batch.op_ids, OpIds{r.take(kRecordFunctionId), r.take(kSequenceNumber), r.take(kEventIndex)});
    case SideTable::kPython:
      if (!any(kPythonId, kPythonParentId, kEventIndex)) break;
      return row(batch.python_ids, PythonIds{r.take(kPythonId), r.take(kPythonParentId), r.take(kEventIndex)});
    case SideTable::kMemory:
      if (!any(kAddress, kBytes, kTotalAllocated, kTotalReserved, kEventIndex)) break;
      return row(batch.memory_ids, MemoryIds{r.take(kAddress), r.take(kBytes), r.take(kTotalAllocated),
                                             r.take(kTotalReserved), r.take(kEventIndex)});
    case SideTable::kSync:
      if (!any(kEventId, kRecordCorrelation)) break;
      return row(batch.sync_ids, SyncIds{r.take(kEventId), r.take(kRecordCorrelation)});
    case SideTable::kCopy:
      if (!any(kCopyBytes, kBandwidth)) break;
      return row(batch.copy_ids, CopyIds{r.take(kCopyBytes), r.take(kBandwidth) != kAbsent ? r.bandwidth : 0});
    case SideTable::kNone:
      break;
  }
  return foretrace::kNone;
}

namespace {

// Addresses have 47 bits: no memory holds more.
bool possible(const MemoryIds& m) {
  constexpr std::int64_t kAddressLimit = std::int64_t{1} << 47;
  const auto total = [](std::int64_t bytes) { return bytes == kAbsent || (bytes >= 0 && bytes <= kAddressLimit); };
  return (m.bytes == kAbsent || (m.bytes >= -kAddressLimit && m.bytes <= kAddressLimit)) && total(m.total_allocated) &&
         total(m.total_reserved);
}

}  // namespace

void RecordSink::finish(Record& r, std::uint64_t offset, std::string_view raw) {
  if (!r.any_field) {
    batch.report(Incident::What::kEmptyRecord, offset, raw);
    return;
  }
  Ns start = 0;
  Ns duration = 0;
  if (r.ts.empty()) {
    if (r.ph != 'M') {
      batch.report(Incident::What::kMissingTime, offset, raw);
      return;
    }
  } else if (!read_us(r.ts, start)) {
    if (r.ph != 'M') {
      batch.report(Incident::What::kUnreadableTime, offset, raw);
      return;
    }
    start = 0;
  }
  if (r.has_dur) {
    if (!read_us(r.dur, duration)) {
      batch.report(Incident::What::kUnreadableDuration, offset, raw);
      duration = 0;
    } else if (duration < 0) {
      batch.report(Incident::What::kNegativeDuration, offset, raw);
      duration = 0;
    }
    if (start > 0 && duration > INT64_MAX - start) {
      batch.report(Incident::What::kUnreadableDuration, offset, raw);
      duration = 0;
    }
  }
  if (r.args_not_object) batch.report(Incident::What::kArgsNotObject, offset, raw);

  EventKind kind{};
  const std::uint16_t category = category_of(r, kind);
  Events& e = batch.events;
  e.start.push_back(start);
  e.duration.push_back(duration);
  e.name.push_back(r.name_id.valid() ? r.name_id : tables.names.intern(r.name));
  e.category.push_back(category);
  e.ph.push_back(r.ph);

  e.lane.push_back(lane_of(r, lane_side(kind)));

  const bool is_flow = kind == EventKind::kFlowStart || kind == EventKind::kFlowEnd;
  std::int64_t correlation = r.take(IdArg::kCorrelation);
  if (!r.id.empty()) {
    std::int64_t flow = 0;
    if (is_flow && correlation == kAbsent && read_int(r.id, flow)) {
      correlation = flow;
    } else {
      tuple += tuple.size() > 1 ? "," : "";
      tuple += "\"event.id\":\"";
      tuple.append(r.id);
      tuple += '"';
    }
  }
  e.correlation.push_back(correlation);
  e.external_id.push_back(r.take(IdArg::kExternalId));
  e.side.push_back(side_row(r, kind));
  if (side_table(kind) == SideTable::kMemory && e.side.back() != kNone) {
    MemoryIds& memory = batch.memory_ids[e.side.back()];
    if (!possible(memory)) {
      batch.report(Incident::What::kImpossibleMemory, offset, raw);
      memory = {.address = memory.address, .event_index = memory.event_index};
    }
  }

  // Ids this kind has no column for stay in the tuple: nothing is lost.
  for (std::uint32_t left = r.ids_present; left != 0; left &= left - 1) {
    const Record::Span text = r.id_text[__builtin_ctz(left)];
    tuple += tuple.size() > 1 ? "," : "";
    tuple.append(text.begin, text.length);
  }
  e.args.push_back(tuple_of(r));
}

ArgsId RecordSink::tuple_of(const Record& r) {
  if (runs.count == 0 && tuple.size() == 1) return ArgsId{};
  const bool plain = tuple.size() == 1;  // nothing but runs
  std::uint32_t id = 0;
  if (plain && guessed != nullptr && guessed->runs == runs.count) {
    id = guessed->tuple;
  } else {
    for (std::size_t i = 0; i < runs.count; ++i) {
      if (tuple.size() > 1) tuple += ',';
      tuple.append(runs.run[i].begin, runs.run[i].length);
    }
    tuple += '}';
    id = tables.tuples.intern(tuple).value;
    if (plain && r.name_id.valid()) predictor.learn(runs, id);
  }
  if (plain) predictor.follow(id);
  return ArgsId{id};
}

void TuplePredictor::learn(const TupleRuns& runs, std::uint32_t tuple) {
  if (runs.count > TupleGuess::kMostRuns) return;
  TupleGuess& g = guesses_[slot_];
  g.key = key_;
  g.tuple = tuple;
  g.runs = static_cast<std::uint32_t>(runs.count);
  g.text.clear();
  for (std::size_t i = 0; i < runs.count; ++i) {
    g.run[i] = {static_cast<std::uint32_t>(g.text.size()), runs.run[i].length, runs.run[i].structurals};
    g.text.append(runs.run[i].begin, runs.run[i].length);
  }
}

}  // namespace foretrace::trace
