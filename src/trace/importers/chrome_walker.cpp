#include "trace/importers/chrome_walker.hpp"

#include <array>
#include <charconv>
#include <cstring>

#include "trace/importers/chrome_numbers.hpp"

namespace foretrace::trace {

namespace {

struct IdKey {
  std::string_view text;
  IdArg id;
};
// By length, so that one look at the length finds the few candidates.
constexpr auto kIdKeys = std::to_array<IdKey>({{"Addr", IdArg::kAddress},
                                               {"Bytes", IdArg::kBytes},
                                               {"bytes", IdArg::kCopyBytes},
                                               {"Ev Idx", IdArg::kEventIndex},
                                               {"event_id", IdArg::kEventId},
                                               {"Python id", IdArg::kPythonId},
                                               {"correlation", IdArg::kCorrelation},
                                               {"External id", IdArg::kExternalId},
                                               {"external id", IdArg::kExternalId},
                                               {"Total Reserved", IdArg::kTotalReserved},
                                               {"correlation_id", IdArg::kCorrelation},
                                               {"Sequence number", IdArg::kSequenceNumber},
                                               {"Total Allocated", IdArg::kTotalAllocated},
                                               {"Python parent id", IdArg::kPythonParentId},
                                               {"Record function id", IdArg::kRecordFunctionId},
                                               {"wait_on_cuda_event_id", IdArg::kEventId},
                                               {"memory bandwidth (GB/s)", IdArg::kBandwidth},
                                               {"wait_on_cuda_event_record_corr_id", IdArg::kRecordCorrelation}});
constexpr std::size_t kLongestIdKey = kIdKeys.back().text.size();
// kFirstOfLength[n]: the first key of n or more characters.
constexpr auto kFirstOfLength = [] {
  std::array<std::uint8_t, kLongestIdKey + 2> first{};
  for (const IdKey& key : kIdKeys) {
    for (std::size_t n = key.text.size() + 1; n < first.size(); ++n) ++first[n];
  }
  return first;
}();

IdArg id_argument(std::string_view key) {
  if (key.size() > kLongestIdKey) return IdArg::kNone;
  for (std::size_t i = kFirstOfLength[key.size()]; i < kFirstOfLength[key.size() + 1]; ++i) {
    if (std::memcmp(key.data(), kIdKeys[i].text.data(), key.size()) == 0) return kIdKeys[i].id;
  }
  return IdArg::kNone;
}

// Takes a field of the event itself; false for keys no column is made of.
bool field(Record& r, std::string_view key, std::string_view value) {
  if (key == "ph") {
    r.ph = value.empty() ? '\0' : value[0];
    return true;
  }
  std::string_view* const to = key == "ts"     ? &r.ts
                               : key == "dur"  ? &r.dur
                               : key == "name" ? &r.name
                               : key == "cat"  ? &r.category
                               : key == "pid"  ? &r.pid
                               : key == "tid"  ? &r.tid
                               : key == "id"   ? &r.id
                                               : nullptr;
  if (to == nullptr) return false;
  *to = value;
  r.has_dur = r.has_dur || to == &r.dur;
  return true;
}

// inf and nan count: they are what a division by a duration of 0 gives.
bool read_double(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

// +1 where a bracket opens, -1 where it closes.
constexpr std::array<std::int8_t, 256> kDepthChange = [] {
  std::array<std::int8_t, 256> table{};
  table['{'] = table['['] = 1;
  table['}'] = table[']'] = -1;
  return table;
}();

}  // namespace

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
    if (runs.count < TupleRuns::kMaxRuns) {
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
