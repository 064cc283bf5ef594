// format_speed: how fast foretrace reads Nsight Systems' databases and XLA's profiles, on one core, and what an event costs.
//
//   format_speed FILE [--repetitions 5]
//
// Make a large file first: benchmarks/make_formats.py nsight|xplane OUT --steps N. Rates are of the whole import (rows/s of all
// tables read, MB/s of the uncompressed file) over the processor's time, so that a busy machine does not show; bytes per event
// are those of the finished trace.

#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "foretrace/trace/load.hpp"

int main(int count, char** arguments) {
  if (count < 2) {
    fmt::print(stderr, "format_speed FILE [--repetitions N]\n");
    return 2;
  }
  int repetitions = 5;
  if (count > 3 && std::string(arguments[2]) == "--repetitions") repetitions = std::max(1, std::atoi(arguments[3]));
  std::vector<double> seconds;
  std::size_t events = 0;
  std::size_t bytes = 0;
  foretrace::trace::LoadOptions options;
  options.threads = 1;
  for (int i = 0; i < repetitions; ++i) {
    const std::clock_t begin = std::clock();
    const auto trace = foretrace::trace::load(arguments[1], options);
    seconds.push_back(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC);
    if (!trace) {
      fmt::print(stderr, "format_speed: {}\n", trace.error().to_string());
      return 3;
    }
    events = trace->size();
    bytes = trace->bytes();
  }
  std::sort(seconds.begin(), seconds.end());
  const double best = seconds.front();
  const auto size = static_cast<double>(std::filesystem::file_size(arguments[1]));
  fmt::print("{} events in {:.3f} s (best of {}; median {:.3f}): {:.2f} M rows/s, {:.0f} MB/s, {:.1f} bytes an event\n",
             events, best, repetitions, seconds[seconds.size() / 2], static_cast<double>(events) / best / 1e6,
             size / best / 1e6, static_cast<double>(bytes) / static_cast<double>(std::max<std::size_t>(1, events)));
  return 0;
}
