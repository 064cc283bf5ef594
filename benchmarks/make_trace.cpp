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
#include <string>
#include <string_view>
#include <vector>

#include "trace_records.hpp"

namespace {

using namespace make_trace;  // NOLINT(google-build-using-namespace): the other half of this program

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
