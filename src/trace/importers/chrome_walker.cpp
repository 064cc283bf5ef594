#include "trace/importers/chrome_walker.hpp"

#include <array>
#include <charconv>

#include "base/decimal.hpp"

namespace foretrace::trace {

namespace {

IdArg id_argument(std::string_view key) {
  const auto is = [&](std::string_view text) { return std::memcmp(key.data(), text.data(), text.size()) == 0; };
  switch (key.size()) {
    case 4:
      if (is("Addr")) return IdArg::kAddress;
      break;
    case 5:
      if (is("Bytes")) return IdArg::kBytes;
      if (is("bytes")) return IdArg::kCopyBytes;
      break;
    case 6:
      if (is("Ev Idx")) return IdArg::kEventIndex;
      break;
    case 8:
      if (is("event_id")) return IdArg::kEventId;
      break;
    case 9:
      if (is("Python id")) return IdArg::kPythonId;
      break;
    case 11:
      if (is("correlation")) return IdArg::kCorrelation;
      if (is("External id") || is("external id")) return IdArg::kExternalId;
      break;
    case 14:
      if (is("Total Reserved")) return IdArg::kTotalReserved;
      if (is("correlation_id")) return IdArg::kCorrelation;
      break;
    case 15:
      if (is("Sequence number")) return IdArg::kSequenceNumber;
      if (is("Total Allocated")) return IdArg::kTotalAllocated;
      break;
    case 16:
      if (is("Python parent id")) return IdArg::kPythonParentId;
      break;
    case 18:
      if (is("Record function id")) return IdArg::kRecordFunctionId;
      break;
    case 21:
      if (is("wait_on_cuda_event_id")) return IdArg::kEventId;
      break;
    case 23:
      if (is("memory bandwidth (GB/s)")) return IdArg::kBandwidth;
      break;
    case 33:
      if (is("wait_on_cuda_event_record_corr_id")) return IdArg::kRecordCorrelation;
      break;
    default:
      break;
  }
  return IdArg::kNone;
}

bool read_double(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// Short decimal integers, the common case by far, without the generality of from_chars.
bool read_int(std::string_view text, std::int64_t& value) {
  if (text.size() - 1 < 18) {
    const bool negative = text[0] == '-';
    std::int64_t v = 0;
    std::size_t i = negative ? 1 : 0;
    if (i == text.size()) return false;
    for (; i < text.size(); ++i) {
      const unsigned digit = static_cast<unsigned char>(text[i]) - '0';
      if (digit > 9) return false;
      v = v * 10 + digit;
    }
    value = negative ? -v : v;
    return true;
  }
  const auto parsed = parse_int64(text);
  if (parsed) value = *parsed;
  return parsed.has_value();
}

// Microseconds with up to three decimals, as Kineto prints them; everything else goes the general way.
bool read_us(std::string_view text, Ns& ns) {
  if (text.size() >= 5 && text.size() <= 18 && text[text.size() - 4] == '.') {
    std::uint64_t v = 0;  // wraps on text that is no number, which is then discarded
    const std::size_t point = text.size() - 4;
    bool digits = true;
    for (std::size_t i = 0; i < text.size(); ++i) {
      if (i == point) continue;
      const unsigned digit = static_cast<unsigned char>(text[i]) - '0';
      digits &= digit <= 9;
      v = v * 10 + digit;
    }
    if (digits) {
      ns = static_cast<Ns>(v);
      return true;
    }
  }
  const auto parsed = parse_us_as_ns(text);
  if (parsed) ns = *parsed;
  return parsed.has_value();
}

// +1 where a bracket opens, -1 where it closes.
constexpr std::array<std::int8_t, 256> kDepthChange = [] {
  std::array<std::int8_t, 256> table{};
  table['{'] = table['['] = 1;
  table['}'] = table[']'] = -1;
  return table;
}();

// Which row a lane key is looked up under: CPU thread, GPU stream, or whichever of the two exists.
char lane_side(EventKind kind) {
  if (is_gpu_row(kind)) return 'g';
  switch (kind) {
    case EventKind::kOp:
    case EventKind::kAnnotation:
    case EventKind::kRuntime:
    case EventKind::kPython:
    case EventKind::kMemory:
      return 'c';
    default:
      return 'e';
  }
}

}  // namespace

std::uint16_t RecordSink::category_of(const Record& record, EventKind& kind) {
  // Instants are told apart by name, so the cache has two rows for them.
  const bool memory = record.ph == 'i' && record.name == "[memory]";
  const std::size_t phase = memory ? 127 : static_cast<std::size_t>(record.ph) & 127;
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
  constexpr auto bit = [](IdArg a) { return 1u << static_cast<unsigned>(a); };
  constexpr std::uint32_t kOpBits =
      bit(IdArg::kRecordFunctionId) | bit(IdArg::kSequenceNumber) | bit(IdArg::kEventIndex);
  constexpr std::uint32_t kPythonBits = bit(IdArg::kPythonId) | bit(IdArg::kPythonParentId) | bit(IdArg::kEventIndex);
  constexpr std::uint32_t kMemoryBits = bit(IdArg::kAddress) | bit(IdArg::kBytes) | bit(IdArg::kTotalAllocated) |
                                        bit(IdArg::kTotalReserved) | bit(IdArg::kEventIndex);
  constexpr std::uint32_t kSyncBits = bit(IdArg::kEventId) | bit(IdArg::kRecordCorrelation);
  constexpr std::uint32_t kCopyBits = bit(IdArg::kCopyBytes) | bit(IdArg::kBandwidth);
  const auto row = [](auto& table, auto value) {
    table.push_back(value);
    return static_cast<std::uint32_t>(table.size() - 1);
  };
  switch (side_table(kind)) {
    case SideTable::kOp:
      if ((r.ids_present & kOpBits) == 0) break;
      return row(batch.op_ids,
                 OpIds{r.take(IdArg::kRecordFunctionId), r.take(IdArg::kSequenceNumber), r.take(IdArg::kEventIndex)});
    case SideTable::kPython:
      if ((r.ids_present & kPythonBits) == 0) break;
      return row(batch.python_ids,
                 PythonIds{r.take(IdArg::kPythonId), r.take(IdArg::kPythonParentId), r.take(IdArg::kEventIndex)});
    case SideTable::kMemory:
      if ((r.ids_present & kMemoryBits) == 0) break;
      return row(batch.memory_ids,
                 MemoryIds{r.take(IdArg::kAddress), r.take(IdArg::kBytes), r.take(IdArg::kTotalAllocated),
                           r.take(IdArg::kTotalReserved), r.take(IdArg::kEventIndex)});
    case SideTable::kSync:
      if ((r.ids_present & kSyncBits) == 0) break;
      return row(batch.sync_ids, SyncIds{r.take(IdArg::kEventId), r.take(IdArg::kRecordCorrelation)});
    case SideTable::kCopy:
      if ((r.ids_present & kCopyBits) == 0) break;
      {
        CopyIds ids{r.take(IdArg::kCopyBytes), 0};
        if (r.take(IdArg::kBandwidth) != kAbsent) ids.gbytes_per_s = r.bandwidth;
        return row(batch.copy_ids, ids);
      }
    case SideTable::kNone:
      break;
  }
  return Events::kNoSide;
}

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

// Moves `it` behind the value it points at; false when that is not a value.
bool ChromeParser::Walker::skip(const std::uint32_t*& it) {
  const char c = text_[*it];
  if (kDepthChange[static_cast<unsigned char>(c)] > 0) {
    int depth = 1;
    const std::uint32_t* const end = end_;
    const char* const text = text_;
    for (const std::uint32_t* i = it + 1; i < end; ++i) {
      depth += kDepthChange[static_cast<unsigned char>(text[*i])];
      if (depth == 0) {
        it = i + 1;
        return true;
      }
    }
    return at_end(end_);
  }
  if (it >= end_) return at_end(it);
  if (c == '}' || c == ']' || c == ',' || c == ':') return false;
  ++it;
  return true;
}

bool ChromeParser::Walker::arguments(Record& record, const std::uint32_t*& cursor) {
  // Arguments that stay in the tuple are kept as runs of the original text: from the first key to the end of the last
  // value before an id argument.
  const char* const text = text_;
  const std::uint32_t* it = cursor + 1;  // behind '{'
  TupleRuns& runs = sink_.runs;
  const std::uint32_t* run_from = nullptr;
  const char* run_end = nullptr;
  const auto flush = [&] {
    if (run_from == nullptr) return;
    const char* const begin = text + *run_from;
    const auto length = static_cast<std::uint32_t>(run_end - begin);
    if (runs.count < TupleRuns::kMost) {
      runs.run[runs.count++] = {begin, length, static_cast<std::uint32_t>(run_to_ - run_from)};
    } else {
      sink_.tuple += sink_.tuple.size() > 1 ? "," : "";
      sink_.tuple.append(begin, length);
    }
    run_from = nullptr;
  };
  if (text[*it] == '}') {
    cursor = it + 1;
    return true;
  }
  if (record.name.data() != nullptr && !record.name_id.valid()) record.name_id = sink_.tables.names.intern(record.name);
  sink_.guessed = record.name_id.valid() ? sink_.predictor.guess(record.name_id) : nullptr;
  while (true) {
    if (text[*it] != '"' || it >= end_) return at_end(it);
    if (text[it[1]] != ':') return at_end(it + 1);
    const std::string_view key = token(it);
    const IdArg id = id_argument(key);
    bool taken = false;
    if (id != IdArg::kNone && !record.has(id) && it + 2 < end_) {
      taken = take_id(record, id, it);
      if (taken) {
        flush();
        it += 3;
      }
    }
    if (!taken) {
      const bool starts = run_from == nullptr;
      if (starts) run_from = it;
      if (!(starts && run_as_guessed(it))) {
        sink_.guessed = nullptr;  // other arguments than guessed, or more of them
        it += 2;
        if (!skip(it)) return false;
      }
      run_end = behind(it);
      run_to_ = it;
    }
    const char c = text[*it];
    if (c == '}') break;
    if (c != ',') return at_end(it);
    ++it;
    if (text[*it] == '}') break;  // trailing comma
  }
  cursor = it + 1;
  flush();
  return true;
}

// An id argument's value at it + 2; false when it is not a number.
bool ChromeParser::Walker::take_id(Record& record, IdArg id, const std::uint32_t* it) {
  const char first = text_[it[2]];
  if (first == '{' || first == '[') return false;
  const std::string_view value = token(it + 2);
  const auto slot = static_cast<std::size_t>(id);
  const bool taken = id == IdArg::kBandwidth ? read_double(value, record.bandwidth)
                                             : !value.empty() && read_int(value, record.ids[slot]);
  if (!taken) return false;
  if (id == IdArg::kBandwidth) record.ids[slot] = 0;
  record.ids_present |= 1u << slot;
  const char* const key_begin = text_ + *it;
  const char* const value_end = value.data() + value.size() + (first == '"' ? 1 : 0);
  record.id_text[slot] = {key_begin, static_cast<std::size_t>(value_end - key_begin)};
  return true;
}

// The run that starts here is the one guessed: moves `it` behind it.
bool ChromeParser::Walker::run_as_guessed(const std::uint32_t*& it) {
  const TupleGuess* const g = sink_.guessed;
  if (g == nullptr || sink_.runs.count >= g->runs) return false;
  const auto& run = g->run[sink_.runs.count];
  const std::uint32_t* const behind_run = it + run.structurals;
  // The same text has the same structure, so what follows it must be a comma or the end of the arguments.
  if (behind_run >= end_ || *it + run.length > *behind_run) return false;
  const char next = text_[*behind_run];
  if (next != ',' && next != '}') return false;
  if (std::memcmp(text_ + *it, g->text.data() + run.offset, run.length) != 0) return false;
  // A number may go on behind the guessed text: 16, 161.
  const char* const behind_text = text_ + *it + run.length;
  if (behind_text != text_ + *behind_run && !is_blank(*behind_text)) return false;
  it = behind_run;
  return true;
}

namespace {

// Takes a field of the event itself; false for keys no column is made of.
bool field(Record& r, std::string_view key, std::string_view value) {
  const auto is = [&](std::string_view text) { return std::memcmp(key.data(), text.data(), text.size()) == 0; };
  switch (key.size()) {
    case 2:
      if (is("ph")) {
        r.ph = value.empty() ? '\0' : value[0];
        return true;
      }
      if (is("ts")) {
        r.ts = value;
        return true;
      }
      if (is("id")) {
        r.id = value;
        return true;
      }
      return false;
    case 3:
      if (is("pid")) {
        r.pid = value;
        return true;
      }
      if (is("tid")) {
        r.tid = value;
        return true;
      }
      if (is("cat")) {
        r.category = value;
        return true;
      }
      if (is("dur")) {
        r.dur = value;
        r.has_dur = true;
        return true;
      }
      return false;
    case 4:
      if (is("name")) {
        r.name = value;
        return true;
      }
      return false;
    default:
      return false;
  }
}

}  // namespace

bool ChromeParser::Walker::record(bool alone) {
  Record r;
  sink_.tuple.assign(1, '{');
  sink_.runs.count = 0;
  sink_.guessed = nullptr;
  const char* const text = text_;
  const std::uint32_t* it = next_;
  const std::uint32_t begin = *it++;
  while (text[*it] != '}') {
    if (text[*it] != '"' || it >= end_) return at_end(it);
    if (text[it[1]] != ':') return at_end(it + 1);
    const std::string_view key = token(it);
    it += 2;
    const char first = text[*it];
    const std::uint32_t* const value_at = it;
    r.any_field = true;
    if (first == '{' && key == "args") {
      if (!arguments(r, it)) return false;
    } else {
      if (!skip(it)) return false;
      const bool scalar = first != '{' && first != '[';
      const bool known = scalar && field(r, key, token(value_at));
      // A time that is a list or an object is kept below, and counted as unreadable.
      if (!scalar && key == "dur") {
        r.dur = {text + *value_at, 1};
        r.has_dur = true;
      } else if (!scalar && key == "ts") {
        r.ts = {text + *value_at, 1};
      }
      // What no column takes stays in the tuple, marked as the event's own key.
      if (!known) {
        if (key == "args") r.args_not_object = true;
        if (sink_.tuple.size() > 1) sink_.tuple += ',';
        sink_.tuple += "\"event.";
        sink_.tuple.append(key);
        sink_.tuple += "\":";
        sink_.tuple.append(text + *value_at, behind(it));
      }
    }
    if (text[*it] == ',') {
      ++it;  // a trailing comma before '}' is forgiven
    } else if (text[*it] != '}') {
      return at_end(it);
    }
  }
  if (it >= end_) return at_end(it);
  ++it;
  if (alone && it != end_) return false;
  next_ = it;
  sink_.finish(r, offset_ + begin, {text + begin, *it - begin});
  return true;
}

bool ChromeParser::Walker::one_record() { return next_ < end_ && text_[*next_] == '{' && record(true); }

bool ChromeParser::Walker::run() {
  Batch& batch = sink_.batch;
  while (next_ < end_) {
    const char c = text_[*next_];
    if (c == ',') {
      ++next_;
    } else if (c == ']') {
      batch.array_ended = true;
      batch.tail_at = *next_ + 1;
      return true;
    } else if (c == '{') {
      if (!record(false)) return false;
    } else {
      const std::uint32_t begin = *next_;
      if (!skip(next_)) return false;
      batch.report(Incident::What::kNotAnObject, offset_ + begin, {text_ + begin, *next_ - begin});
    }
  }
  return true;
}

}  // namespace foretrace::trace
