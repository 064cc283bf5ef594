// read_speed: how fast foretrace reads a trace, beside what the machine and the parser allow, in one run on one file.
//
//   read_speed build/bench/big.json [--repetitions 5] [--json result.json]
//
// Cases, interleaved so that a busy moment of the machine hits all of them alike: memcpy of the file; the yardstick
// (yardstick.hpp); foretrace on one and two threads; the same for FILE.json.gz when it lies beside. Rates are
// uncompressed bytes per second. Peak memory is taken in a child process that only loads the file.

#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "foretrace/trace/load.hpp"
#include "yardstick.hpp"

namespace {

using foretrace::benchmarks::Visited;
using foretrace::benchmarks::Yardstick;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& message) {
  fmt::print(stderr, "read_speed: {}\n", message);
  std::exit(3);
}

class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    struct stat info{};
    if (fd < 0 || ::fstat(fd, &info) != 0) die("cannot open " + path);
    size_ = static_cast<std::size_t>(info.st_size);
    data_ = ::mmap(nullptr, size_, PROT_READ, MAP_PRIVATE | MAP_POPULATE, fd, 0);
    ::close(fd);
    if (data_ == MAP_FAILED) die("cannot map " + path);
  }
  ~MappedFile() { ::munmap(data_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  [[nodiscard]] std::string_view text() const { return {static_cast<const char*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

struct Case {
  std::string name;
  std::string key;
  std::function<double()> run;  // seconds
  std::vector<double> seconds;

  [[nodiscard]] double best() const { return *std::min_element(seconds.begin(), seconds.end()); }
  [[nodiscard]] double median() const {
    std::vector<double> s = seconds;
    std::sort(s.begin(), s.end());
    return s.size() % 2 == 1 ? s[s.size() / 2] : (s[s.size() / 2 - 1] + s[s.size() / 2]) / 2;
  }
};

template <class F>
double timed(F&& body) {
  const auto begin = Clock::now();
  body();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Busy neighbours change ratios between one thread and two: each measurement waits for a quiet moment, up to a limit.
// False when there was none.
bool wait_until_idle() {
  constexpr auto kLook = std::chrono::milliseconds(60);
  constexpr int kLooks = 50;
  const auto busy_and_all = [] {
    std::ifstream stat("/proc/stat");
    std::string cpu;
    stat >> cpu;
    std::uint64_t busy = 0;
    std::uint64_t all = 0;
    for (int field = 0; field < 8; ++field) {
      std::uint64_t ticks = 0;
      stat >> ticks;
      all += ticks;
      if (field != 3 && field != 4) busy += ticks;  // idle, waiting for a disk
    }
    return std::pair(busy, all);
  };
  for (int look = 0; look < kLooks; ++look) {
    const auto [busy0, all0] = busy_and_all();
    std::this_thread::sleep_for(kLook);
    const auto [busy1, all1] = busy_and_all();
    if (busy1 - busy0 <= (all1 - all0) / 12) return true;
  }
  return false;
}

double load_seconds(const std::string& path, unsigned threads) {
  foretrace::trace::LoadOptions options;
  options.threads = threads;
  std::optional<foretrace::Result<foretrace::trace::Trace>> trace;
  const double seconds = timed([&] { trace.emplace(foretrace::trace::load(path, options)); });
  if (!*trace) die((*trace).error().to_string());
  return seconds;
}

// ---- peak memory, in a process of its own

struct Memory {
  std::uint64_t events = 0;
  std::uint64_t peak_bytes = 0;  ///< beside the input: anonymous pages, or all pages less the input's
  std::uint64_t hwm_bytes = 0;   ///< VmHWM: everything, the mapped input included
  std::uint64_t kept_bytes = 0;  ///< Trace::bytes()
};

std::uint64_t status_bytes(const char* key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::strtoull(line.c_str() + std::strlen(key), nullptr, 10) * 1024;
  }
  return 0;
}

int memory_child(const std::string& path, unsigned threads) {
  std::atomic<bool> done = false;
  std::uint64_t peak_anonymous = 0;
  std::thread sampler([&] {
    const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    while (!done.load()) {
      std::FILE* f = std::fopen("/proc/self/statm", "r");
      unsigned long long total = 0;
      unsigned long long resident = 0;
      unsigned long long shared = 0;
      if (f != nullptr && std::fscanf(f, "%llu %llu %llu", &total, &resident, &shared) == 3) {
        peak_anonymous = std::max<std::uint64_t>(peak_anonymous, (resident - shared) * page);
      }
      if (f != nullptr) std::fclose(f);
      std::this_thread::sleep_for(std::chrono::microseconds(500));
    }
  });
  foretrace::trace::LoadOptions options;
  options.threads = threads;
  auto trace = foretrace::trace::load(path, options);
  done = true;
  sampler.join();
  if (!trace) die(trace.error().to_string());
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) die("cannot stat " + path);
  const std::uint64_t hwm = status_bytes("VmHWM:");
  const auto input = static_cast<std::uint64_t>(info.st_size);
  // the sampler may miss a short peak, the other figure may be low when the input was never wholly resident
  const std::uint64_t peak = std::max(peak_anonymous, hwm > input ? hwm - input : 0);
  fmt::print("{} {} {} {}\n", trace->size(), peak, hwm, trace->bytes());
  return 0;
}

Memory measure_memory(const std::string& path, unsigned threads) {
  const std::string command = fmt::format("/proc/{}/exe --memory {} '{}'", ::getpid(), threads, path);
  std::FILE* pipe = ::popen(command.c_str(), "r");
  Memory m;
  unsigned long long events = 0;
  unsigned long long peak = 0;
  unsigned long long hwm = 0;
  unsigned long long kept = 0;
  if (pipe == nullptr || std::fscanf(pipe, "%llu %llu %llu %llu", &events, &peak, &hwm, &kept) != 4) {
    die("the memory measurement failed");
  }
  ::pclose(pipe);
  return {events, peak, hwm, kept};
}

void print_memory(const char* name, const Memory& m) {
  const double limit = 100.0 * static_cast<double>(m.events) + 32e6;
  fmt::print(
      "memory, {:<22} {:>7.1f} MB beside the input ({:.1f} bytes an event; columns keep {:.1f}); {:.2f} of 100 B/event "
      "+ 32 MB\n",
      name, static_cast<double>(m.peak_bytes) / 1e6, static_cast<double>(m.peak_bytes) / static_cast<double>(m.events),
      static_cast<double>(m.kept_bytes) / static_cast<double>(m.events), static_cast<double>(m.peak_bytes) / limit);
}

std::string memory_json(const Memory& m) {
  return fmt::format(R"({{"events":{},"peak_bytes":{},"hwm_bytes":{},"kept_bytes":{}}})", m.events, m.peak_bytes,
                     m.hwm_bytes, m.kept_bytes);
}

// ---- all of it, on one file

class ReadSpeed {
 public:
  ReadSpeed(std::string path, int repetitions)
      : path_(std::move(path)),
        gz_path_(path_ + ".gz"),
        have_gz_(::access(gz_path_.c_str(), R_OK) == 0),
        repetitions_(repetitions),
        file_(path_),
        text_(file_.text()),
        target_(std::min<std::size_t>(text_.size(), 256 << 20), '\1') {
    add("memcpy", "memcpy", [this] { return timed([this] { copy(); }); });
    add("yardstick (simdjson, bare)", "yardstick", [this] { return yardstick_seconds(); });
    // What a second thread can bring on this machine: two yardsticks at once, each over the whole file, half their time.
    add("yardstick, 2 at once (a file each)", "yardstick_2", [this] {
      return timed([this] {
               const std::jthread other([this] { Yardstick().visit(text_); });
               visited_ = yardstick_.visit(text_);
             }) /
             2;
    });
    add("foretrace .json, 1 thread", "json_1", [this] { return load_seconds(path_, 1); });
    add("foretrace .json, 2 threads", "json_2", [this] { return load_seconds(path_, 2); });
    if (!have_gz_) return;
    add("foretrace .json.gz, 1 thread", "gz_1", [this] { return load_seconds(gz_path_, 1); });
    add("foretrace .json.gz, 2 threads", "gz_2", [this] { return load_seconds(gz_path_, 2); });
  }

  void measure() {
    for (int r = 0; r < repetitions_; ++r) {
      for (Case& c : cases_) {
        if (!wait_until_idle()) ++disturbed_;
        c.seconds.push_back(c.run());
      }
    }
    if (disturbed_ > 0) {
      fmt::print("note: {} of {} measurements began while other work kept the processors busy\n", disturbed_,
                 cases_.size() * static_cast<std::size_t>(repetitions_));
    }
  }

  void print_speeds() const {
    const auto bytes = static_cast<double>(text_.size());
    fmt::print("{}: {:.1f} MB, {} events, {} values; {} repetitions, interleaved\n\n", path_, bytes / 1e6,
               visited_.records, visited_.values, repetitions_);
    fmt::print("{:<34} {:>8} {:>9} {:>7} {:>11} {:>14}\n", "", "best s", "median s", "GB/s", "M events/s",
               "of yardstick");
    const double base = find("yardstick").best();
    for (const Case& c : cases_) {
      fmt::print("{:<34} {:>8.3f} {:>9.3f} {:>7.2f} {:>11.2f} {:>14.2f}\n", c.name, c.best(), c.median(),
                 bytes / c.best() / 1e9, static_cast<double>(visited_.records) / c.best() / 1e6, base / c.best());
    }
  }

  void print_ratios() const {
    fmt::print("\n{:<44} {:>6} {:>8} {:>6}\n", "ratio", "best", "median", "goal");
    print_ratio("1 thread against the yardstick", "yardstick", "json_1", "0.6");
    print_ratio("2 threads against 1", "json_1", "json_2", "1.6");
    print_ratio("  the machine's own: 2 yardsticks against 1", "yardstick", "yardstick_2", "");
    if (have_gz_) print_ratio(".json.gz on 2 threads against .json on 1", "json_1", "gz_2", "0.9");
  }

  void measure_memories() {
    fmt::print("\n");
    for (const unsigned threads : {1U, 2U}) {
      memories_.emplace_back(fmt::format("json_{}", threads), measure_memory(path_, threads));
      print_memory(fmt::format(".json, {} thread(s)", threads).c_str(), memories_.back().second);
      if (!have_gz_) continue;
      memories_.emplace_back(fmt::format("gz_{}", threads), measure_memory(gz_path_, threads));
      print_memory(fmt::format(".json.gz, {} thread(s)", threads).c_str(), memories_.back().second);
    }
  }

  [[nodiscard]] std::string json() const {
    std::string out = fmt::format(R"({{"file":"{}","bytes":{},"events":{},"repetitions":{},"disturbed":{},"cases":{{)",
                                  path_, text_.size(), visited_.records, repetitions_, disturbed_);
    for (const Case& c : cases_) {
      out += fmt::format(R"({}"{}":{{"best_s":{:.6f},"median_s":{:.6f}}})", &c == cases_.data() ? "" : ",", c.key,
                         c.best(), c.median());
    }
    out += "},\"memory\":{";
    for (const auto& [name, m] : memories_) {
      out += fmt::format(R"({}"{}":{})", out.back() == '{' ? "" : ",", name, memory_json(m));
    }
    return out + "}}\n";
  }

 private:
  void add(std::string name, std::string key, std::function<double()> run) {
    cases_.push_back({std::move(name), std::move(key), std::move(run), {}});
  }
  [[nodiscard]] const Case& find(std::string_view key) const {
    return *std::find_if(cases_.begin(), cases_.end(), [&](const Case& c) { return c.key == key; });
  }
  void print_ratio(const char* what, std::string_view slow, std::string_view fast, const char* goal) const {
    fmt::print("{:<44} {:>6.2f} {:>8.2f} {:>6}\n", what, find(slow).best() / find(fast).best(),
               find(slow).median() / find(fast).median(), goal);
  }
  void copy() {
    for (std::size_t at = 0; at < text_.size(); at += target_.size()) {
      std::memcpy(target_.data(), text_.data() + at, std::min(target_.size(), text_.size() - at));
    }
  }
  double yardstick_seconds() {
    const double seconds = timed([this] { visited_ = yardstick_.visit(text_); });
    if (!visited_.error.empty()) die(visited_.error);
    return seconds;
  }

  std::string path_, gz_path_;
  bool have_gz_;
  int repetitions_;
  MappedFile file_;
  std::string_view text_;
  std::vector<char> target_;
  Yardstick yardstick_;
  Visited visited_;
  std::vector<Case> cases_;
  std::vector<std::pair<std::string, Memory>> memories_;
  int disturbed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  std::string json_path;
  int repetitions = 5;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--memory" && i + 2 < argc)
      return memory_child(argv[i + 2], static_cast<unsigned>(std::atoi(argv[i + 1])));
    if (arg == "--repetitions" && i + 1 < argc) {
      repetitions = std::max(1, std::atoi(argv[++i]));
    } else if (arg == "--json" && i + 1 < argc) {
      json_path = argv[++i];
    } else {
      path = arg;
    }
  }
  if (path.empty()) {
    fmt::print(stderr, "usage: read_speed FILE.json [--repetitions N] [--json OUT]\n");
    return 2;
  }
  ReadSpeed speed(path, repetitions);
  speed.measure();
  speed.print_speeds();
  speed.print_ratios();
  speed.measure_memories();
  if (!json_path.empty()) std::ofstream(json_path) << speed.json();
  return 0;
}
