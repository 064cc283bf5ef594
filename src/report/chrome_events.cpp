#include "report/chrome_events.hpp"

#include <cstdlib>

namespace foretrace::report {

using graph::TaskKind;

std::string_view profiler_category(TaskKind kind) {
  return kind == TaskKind::kCpu                                       ? "cpu_op"
         : kind == TaskKind::kCall                                    ? "cuda_runtime"
         : kind == TaskKind::kMemcpy                                  ? "gpu_memcpy"
         : kind == TaskKind::kMemset                                  ? "gpu_memset"
         : kind == TaskKind::kKernel || kind == TaskKind::kCollective ? "kernel"
                                                                      : "wait";
}

std::string exact_us(Ns ns) {
  return fmt::format("{}{}.{:03}", ns < 0 ? "-" : "", std::abs(ns) / kNsPerUs, std::abs(ns) % kNsPerUs);
}

void ChromeEvents::next() {
  out_ += first_ ? "\n" : ",\n";
  first_ = false;
}

void ChromeEvents::metadata(std::string_view what, std::uint32_t pid, std::uint32_t tid, std::string_view key,
                            std::string_view value) {
  next();
  put(R"({{"ph": "M", "name": "{}", "pid": {}, "tid": {}, "ts": 0, "args": {{"{}": {}}}}})", what, pid, tid, key,
      value);
}

void ChromeEvents::name_process(std::uint32_t pid, std::string_view name, std::size_t order) {
  metadata("process_name", pid, 0, "name", name);
  metadata("process_sort_index", pid, 0, "sort_index", fmt::format("{}", order));
}

void ChromeEvents::name_track(std::uint32_t pid, std::uint32_t tid, std::string_view name, std::size_t order) {
  metadata("thread_name", pid, tid, "name", name);
  metadata("thread_sort_index", pid, tid, "sort_index", fmt::format("{}", order));
}

void ChromeEvents::begin_slice(std::string_view category, std::string_view name, std::uint32_t pid, std::uint32_t tid,
                               Ns start, Ns duration) {
  next();
  put(R"({{"ph": "X", "cat": "{}", "name": {}, "pid": {}, "tid": {}, "ts": {}, "dur": {}, "args": {{)", category, name,
      pid, tid, exact_us(start - origin), exact_us(duration));
}

void ChromeEvents::arrow_end(std::string_view phase, std::string_view category, std::string_view label,
                             const Place& place) {
  next();
  put(R"({{{}, "cat": "{}", "name": "{}", "id": {}, "pid": {}, "tid": {}, "ts": {}}})", phase, category, label, arrows_,
      place.pid, place.tid, exact_us(place.at - origin));
}

void ChromeEvents::arrow(std::string_view category, std::string_view label, const Place& from, const Place& to) {
  ++arrows_;
  arrow_end(R"("ph": "s")", category, label, from);
  arrow_end(R"("ph": "f", "bp": "e")", category, label, to);
}

}  // namespace foretrace::report
