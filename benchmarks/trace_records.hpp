#pragma once
// The records of a Kineto trace as they stand in its text, with the places of all numbers that move when the trace is repeated.

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.hpp"

namespace make_trace {

/// Number spaces that move together.
enum Space : std::uint8_t {
  kTime,  // ns
  kCorrelation,
  kExternal,
  kFlow,
  kRecordFunction,
  kSequence,
  kEventIndex,
  kPython,
  kCollectiveSeq,
  kStep,
  kIteration,
  kSpaces
};

struct Field {
  std::uint32_t begin = 0;  // place of the number in the input's text
  std::uint32_t end = 0;
  Space space = kTime;
  std::int8_t decimals = 0;  // of a time in us, -1: none
  std::int64_t value = 0;
};

struct Record {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::uint32_t first_field = 0;
  std::uint32_t field_count = 0;
  bool once = false;
  // ProfilerStep ranges only
  bool step = false;
  bool on_gpu = false;
  std::int64_t ends = 0;            // ns
  std::uint32_t duration = 0;       // place of the number in the input's text
  std::uint32_t duration_size = 0;  // 0: has none
};

struct Source {
  std::string path;
  std::string text;
  std::size_t body_begin = 0;  // after the '[' of traceEvents
  std::size_t body_end = 0;    // at its ']'
  std::vector<Record> records;
  std::vector<Field> fields;
  std::array<std::int64_t, kSpaces> low{};
  std::array<std::int64_t, kSpaces> high{};
};

[[noreturn]] inline void die(const std::string& message) {
  fmt::print(stderr, "make_trace: {}\n", message);
  std::exit(3);
}

inline std::string read_file(const std::string& path) {
  auto source = foretrace::open_source(path);
  std::string text;
  while (source) {
    constexpr std::size_t kBlock = 1 << 20;
    const std::size_t size = text.size();
    text.resize(size + kBlock);
    const auto got = (*source)->read(text.data() + size, kBlock);
    if (!got) die(got.error().to_string());
    text.resize(size + *got);
    if (*got == 0) return text;
  }
  die(source.error().to_string());
}

/// {ns, decimals}: "12.345" us -> {12345, 3}; more than three decimals are cut, as no profiler writes them.
inline std::pair<std::int64_t, int> time_ns(std::string_view text) {
  std::int64_t whole = 0;
  const auto [p, ec] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (ec != std::errc()) return {0, -2};
  const std::string_view rest = text.substr(static_cast<std::size_t>(p - text.data()));
  if (rest.empty()) return {whole * 1000, -1};
  if (rest[0] != '.') return {0, -2};
  std::int64_t fraction = 0;
  for (std::size_t i = 1; i <= 3; ++i) fraction = fraction * 10 + (i < rest.size() ? rest[i] - '0' : 0);
  return {whole * 1000 + (text[0] == '-' ? -fraction : fraction), 3};
}

/// A walk over one JSON record that notes the numbers to move. Inputs are trusted to be well-formed; anything else
/// ends the program.
class Scanner {
 public:
  explicit Scanner(Source& source) : s_(source), t_(source.text) {}

  void run() {
    const std::size_t key = t_.find("\"traceEvents\"");
    if (key == std::string_view::npos) die(s_.path + ": no traceEvents");
    at_ = key + 13;
    expect(':');
    expect('[');
    s_.body_begin = at_;
    skip_space();
    while (t_[at_] != ']') {
      record();
      skip_space();
      if (t_[at_] == ',') ++at_;
      skip_space();
    }
    s_.body_end = at_;
    if (s_.records.empty()) die(s_.path + ": traceEvents is empty");
  }

 private:
  void skip_space() {
    while (at_ < t_.size() && (t_[at_] == ' ' || t_[at_] == '\n' || t_[at_] == '\t' || t_[at_] == '\r')) ++at_;
    if (at_ >= t_.size()) die(s_.path + ": the text ends inside traceEvents");
  }
  void expect(char c) {
    skip_space();
    if (t_[at_] != c) die(fmt::format("{}: byte {}: expected '{}', found '{}'", s_.path, at_, c, t_[at_]));
    ++at_;
  }
  std::string_view string() {
    expect('"');
    const std::size_t begin = at_;
    while (at_ < t_.size() && t_[at_] != '"') at_ += t_[at_] == '\\' ? 2 : 1;
    if (at_ >= t_.size()) die(fmt::format("{}: byte {}: the string does not end", s_.path, begin));
    return t_.substr(begin, at_++ - begin);
  }
  std::string_view scalar() {
    const std::size_t begin = at_;
    while (std::strchr(",]} \n\t\r", t_[at_]) == nullptr) ++at_;
    return t_.substr(begin, at_ - begin);
  }

  void record() {
    Record r;
    r.begin = static_cast<std::uint32_t>(at_);
    r.first_field = static_cast<std::uint32_t>(s_.fields.size());
    ph_ = cat_ = name_ = id_ = ts_ = dur_ = {};
    object(0);
    r.end = static_cast<std::uint32_t>(at_);
    r.once = ph_ == "M";
    if (!ts_.empty()) add(ts_, kTime);
    if (!id_.empty()) add(id_, cat_ == "ac2g" || cat_ == "async_cpu_to_gpu" ? kCorrelation : kFlow);
    if (name_.starts_with("ProfilerStep#")) {
      add(name_.substr(13), kStep);
      r.step = true;
      r.on_gpu = cat_.starts_with("gpu");
      if (!dur_.empty() && !ts_.empty()) {
        r.ends = time_ns(ts_).first + time_ns(dur_).first;
        r.duration = static_cast<std::uint32_t>(dur_.data() - t_.data());
        r.duration_size = static_cast<std::uint32_t>(dur_.size());
      }
    }
    std::sort(s_.fields.begin() + r.first_field, s_.fields.end(),
              [](const Field& a, const Field& b) { return a.begin < b.begin; });
    r.field_count = static_cast<std::uint32_t>(s_.fields.size()) - r.first_field;
    if (!dur_.empty() && !ts_.empty()) {
      const std::int64_t end = time_ns(ts_).first + std::max<std::int64_t>(0, time_ns(dur_).first);
      s_.high[kTime] = std::max(s_.high[kTime], end);
    }
    s_.records.push_back(r);
  }
  void object(int depth) {
    expect('{');
    skip_space();
    while (t_[at_] != '}') {
      skip_space();
      const std::string_view key = string();
      expect(':');
      skip_space();
      value(key, depth);
      skip_space();
      if (t_[at_] == ',') ++at_;
      skip_space();
    }
    ++at_;
  }
  void value(std::string_view key, int depth) {
    const char c = t_[at_];
    if (c == '{') {
      object(key == "args" && depth == 0 ? 1 : 2);
    } else if (c == '[') {
      ++at_;
      skip_space();
      while (t_[at_] != ']') {
        value({}, 2);
        skip_space();
        if (t_[at_] == ',') ++at_;
        skip_space();
      }
      ++at_;
    } else {
      const std::string_view text = c == '"' ? string() : scalar();
      if (depth == 0) {
        top_level(key, text);
      } else if (depth == 1) {
        argument(key, text);
      }
    }
  }
  void top_level(std::string_view key, std::string_view text) {
    if (key == "ph") ph_ = text;
    if (key == "cat") cat_ = text;
    if (key == "name") name_ = text;
    if (key == "id") id_ = text;
    if (key == "ts") ts_ = text;
    if (key == "dur") dur_ = text;
  }
  void argument(std::string_view key, std::string_view text) {
    static constexpr std::pair<std::string_view, Space> kKeys[] = {
        {"correlation", kCorrelation},
        {"wait_on_cuda_event_record_corr_id", kCorrelation},
        {"External id", kExternal},
        {"external id", kExternal},
        {"Record function id", kRecordFunction},
        {"Sequence number", kSequence},
        {"Ev Idx", kEventIndex},
        {"Profiler Event Index", kEventIndex},
        {"Python id", kPython},
        {"Python parent id", kPython},
        {"Seq", kCollectiveSeq},
        {"Trace iteration", kIteration},
    };
    for (const auto& [name, space] : kKeys) {
      if (key == name) add(text, space);
    }
  }

  void add(std::string_view text, Space space) {
    Field f;
    f.begin = static_cast<std::uint32_t>(text.data() - t_.data());
    f.end = f.begin + static_cast<std::uint32_t>(text.size());
    f.space = space;
    if (space == kTime) {
      const auto [ns, decimals] = time_ns(text);
      if (decimals == -2) return;
      f.value = ns;
      f.decimals = static_cast<std::int8_t>(decimals);
    } else {
      const auto [p, ec] = std::from_chars(text.data(), text.data() + text.size(), f.value);
      // 0 and -1 mean "none" in these keys, null and strings are not ids
      if (ec != std::errc() || p != text.data() + text.size() || (f.value <= 0 && space != kStep)) return;
    }
    std::int64_t& low = s_.low[space];
    std::int64_t& high = s_.high[space];
    low = low == 0 ? f.value : std::min(low, f.value);
    high = std::max(high, f.value);
    s_.fields.push_back(f);
  }

  Source& s_;
  std::string_view t_;
  std::size_t at_ = 0;
  std::string_view ph_, cat_, name_, id_, ts_, dur_;
};

}  // namespace make_trace
