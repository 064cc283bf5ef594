// make_trace: a Kineto trace of any size, made of real ones.
//
//   make_trace --bytes 1G -o build/bench/big.json examples/resnet50-h200.json.gz
//   make_trace --bytes 300M --gzip -o b.json a.json.gz c.json.gz      # also writes b.json.gz (gzip -6)
//   make_trace --events 250k --one-step -o c.json a.json.gz           # one step of at least that many events
//
// The traceEvents of the inputs are repeated in turn until the file has at least that many bytes or events. Each repetition is moved in time
// to begin after the one before, and every id that links events is moved with it, so that ids stay unique and links
// stay right: correlation (with the ac2g flows and the record a wait names), External id, fwdbwd flows, Record function
// id, Sequence number, Ev Idx, Python id, Seq of collectives, the number in ProfilerStep#N. Names of threads and
// processes ("M" rows) appear once. Header and footer are those of the first input. Text is copied as it stands: the
// result has the layout, escapes and number formats of the profiler that wrote the input. With --one-step the ProfilerStep
// ranges of all repetitions become one, from the first one's begin to the last one's end: a training loop that calls
// profiler.step() once in many iterations.

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
#include <vector>

#include "base/byte_source.hpp"

namespace {

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

[[noreturn]] void die(const std::string& message) {
  fmt::print(stderr, "make_trace: {}\n", message);
  std::exit(3);
}

std::string read_file(const std::string& path) {
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
std::pair<std::int64_t, int> time_ns(std::string_view text) {
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

class Writer {
 public:
  explicit Writer(const std::string& path) : file_(std::fopen(path.c_str(), "wb")) {
    if (file_ == nullptr) die("cannot write " + path);
    buffer_.reserve(kBuffer + (1 << 20));
  }
  void put(std::string_view text) {
    buffer_.append(text);
    if (buffer_.size() >= kBuffer) flush();
  }
  void put_number(std::int64_t value) {
    char digits[24];
    put({digits, static_cast<std::size_t>(std::to_chars(digits, digits + 24, value).ptr - digits)});
  }
  void put_time(std::int64_t ns, int decimals) {
    put_number(ns / 1000);
    if (decimals < 0) return;
    const auto rest = static_cast<int>(ns % 1000);
    const char text[4] = {'.', static_cast<char>('0' + rest / 100), static_cast<char>('0' + rest / 10 % 10),
                          static_cast<char>('0' + rest % 10)};
    put({text, 4});
  }
  [[nodiscard]] std::uint64_t written() const { return written_ + buffer_.size(); }
  void close() {
    flush();
    if (std::fclose(file_) != 0) die("cannot finish the output: is the disk full?");
  }

 private:
  static constexpr std::size_t kBuffer = 4 << 20;
  void flush() {
    if (std::fwrite(buffer_.data(), 1, buffer_.size(), file_) != buffer_.size()) die("write failed: is the disk full?");
    written_ += buffer_.size();
    buffer_.clear();
  }
  std::FILE* file_;
  std::string buffer_;
  std::uint64_t written_ = 0;
};

std::uint64_t parse_size(const std::string& option, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double factor = unit == "G" ? 1e9 : unit == "M" ? 1e6 : unit == "k" ? 1e3 : unit.empty() ? 1 : 0;
  if (factor == 0 || value <= 0) die(option + " takes a number with k, M or G, such as 1.5G");
  return static_cast<std::uint64_t>(value * factor);
}

struct Wanted {
  std::uint64_t bytes = 0;  // at least both
  std::uint64_t events = 0;
  bool one_step = false;
};

struct Totals {
  std::uint64_t events = 0;
  std::uint64_t blocks = 0;
};

using Shift = std::array<std::int64_t, kSpaces>;

class Blocks {
 public:
  Blocks(const std::vector<Source>& sources, const Wanted& wanted, Writer& out)
      : sources_(sources), wanted_(wanted), out_(out), next_(sources[0].low) {}

  Totals write() {
    const std::string_view footer = std::string_view(sources_[0].text).substr(sources_[0].body_end);
    while (out_.written() + footer.size() < wanted_.bytes || totals_.events < wanted_.events ||
           totals_.blocks < sources_.size()) {
      block(sources_[totals_.blocks % sources_.size()]);
      ++totals_.blocks;
    }
    if (first_step_ != nullptr) {
      put(*step_source_, *first_step_, step_shift_, steps_end_ - first_step_->ends - step_shift_[kTime]);
    }
    out_.put("\n  ");
    out_.put(footer);
    return totals_;
  }

 private:
  void block(const Source& s) {
    Shift shift{};
    for (std::size_t i = 0; i < kSpaces; ++i) {
      if (s.low[i] == 0 && s.high[i] == 0) continue;
      shift[i] = std::max<std::int64_t>(next_[i], 1) - s.low[i];
      next_[i] = s.high[i] + shift[i] + (i == kTime ? 1'000'000 : 1);
    }
    shift[kTime] = shift[kTime] / 1000 * 1000;  // whole us, so that integer times stay exact
    for (const Record& r : s.records) {
      if (r.once && totals_.blocks >= sources_.size()) continue;
      if (r.step && wanted_.one_step) {
        join(s, r, shift);
      } else {
        put(s, r, shift, 0);
      }
    }
  }

  // The first range stands for all; how long it is shows at the end. The GPU's own ranges are left out.
  void join(const Source& s, const Record& r, const Shift& shift) {
    if (r.on_gpu || r.duration_size == 0) return;
    steps_end_ = std::max(steps_end_, r.ends + shift[kTime]);
    if (first_step_ != nullptr) return;
    first_step_ = &r;
    step_source_ = &s;
    step_shift_ = shift;
  }

  void put(const Source& s, const Record& r, const Shift& shift, std::int64_t longer) {
    const std::string_view text = s.text;
    out_.put(totals_.events++ == 0 ? "\n  " : ",\n  ");
    std::size_t at = r.begin;
    bool lengthened = longer == 0;
    const auto copy_until = [&](std::size_t end) {
      if (!lengthened && r.duration < end) {
        out_.put(text.substr(at, r.duration - at));
        const auto [ns, decimals] = time_ns(text.substr(r.duration, r.duration_size));
        out_.put_time(ns + longer, decimals);
        at = r.duration + r.duration_size;
        lengthened = true;
      }
      out_.put(text.substr(at, end - at));
    };
    for (std::size_t i = 0; i < r.field_count; ++i) {
      const Field& f = s.fields[r.first_field + i];
      copy_until(f.begin);
      if (f.space == kTime) {
        out_.put_time(f.value + shift[kTime], f.decimals);
      } else {
        out_.put_number(f.value + shift[f.space]);
      }
      at = f.end;
    }
    copy_until(r.end);
  }

  const std::vector<Source>& sources_;
  const Wanted& wanted_;
  Writer& out_;
  Shift next_;
  Totals totals_;
  const Source* step_source_ = nullptr;
  const Record* first_step_ = nullptr;
  Shift step_shift_{};
  std::int64_t steps_end_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  Wanted wanted;
  std::string output;
  bool gzip = false;
  std::vector<Source> sources;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--bytes" && i + 1 < argc) {
      wanted.bytes = parse_size(arg, argv[++i]);
    } else if (arg == "--events" && i + 1 < argc) {
      wanted.events = parse_size(arg, argv[++i]);
    } else if (arg == "--one-step") {
      wanted.one_step = true;
    } else if (arg == "-o" && i + 1 < argc) {
      output = argv[++i];
    } else if (arg == "--gzip") {
      gzip = true;
    } else if (arg.starts_with("-")) {
      die("unknown option " + arg);
    } else {
      sources.emplace_back().path = arg;
    }
  }
  if ((wanted.bytes == 0 && wanted.events == 0) || output.empty() || sources.empty()) {
    fmt::print(stderr,
               "usage: make_trace [--bytes SIZE[k|M|G]] [--events COUNT[k|M|G]] [--one-step] -o OUT.json [--gzip] "
               "TRACE.json[.gz]…\n");
    return 2;
  }
  for (Source& s : sources) {
    s.text = read_file(s.path);
    if (s.text.size() > UINT32_MAX) die(s.path + ": inputs must be smaller than 4 GB");
    Scanner(s).run();
  }
  Writer out(output);
  out.put(std::string_view(sources[0].text).substr(0, sources[0].body_begin));
  const Totals totals = Blocks(sources, wanted, out).write();
  out.close();
  fmt::print("{}: {} bytes, {} events, {} repetitions of {} trace(s)\n", output, out.written(), totals.events,
             totals.blocks, sources.size());
  if (gzip && std::system(("gzip -6 -c '" + output + "' > '" + output + ".gz'").c_str()) != 0) die("gzip failed");
  return 0;
}
