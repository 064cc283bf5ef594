// job_speed: how long a job of many ranks takes to be read, merged and asked, and in how much memory.
//
//   job_speed [--threads 2] [--json result.json] FILE…       the traces of all ranks (benchmarks/make_job.py makes many)
//
// Memory is the peak of the process, against the sum of the columns of all traces: what must be there anyway.

#include <fmt/core.h>
#include <sys/resource.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/report/report.hpp"

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

double peak_bytes() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_maxrss) * 1024;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  foretrace::trace::LoadOptions options;
  options.threads = 2;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--threads" && i + 1 < argc) {
      options.threads = static_cast<unsigned>(std::strtoul(argv[++i], nullptr, 10));
    } else if (arg == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else {
      files.push_back(arg);
    }
  }
  // As `foretrace ranks` does it; what is read of a rank is let go when its part of the job's graph is there.
  const auto begin = Clock::now();
  const auto report = foretrace::analysis::analyse_ranks(
      files, options, {.step = {}, .align = true, .threads = options.threads, .progress = {}});
  if (!report) {
    fmt::print(stderr, "job_speed: {}\n", report.error().to_string());
    return 3;
  }
  const std::size_t written = foretrace::report::to_json(*report).size();
  const double total_s = seconds_since(begin), peak = peak_bytes();

  const auto reading = Clock::now();
  const auto job = foretrace::ranks::load_job(files, options);
  if (!job) {
    fmt::print(stderr, "job_speed: {}\n", job.error().to_string());
    return 3;
  }
  const double read_s = seconds_since(reading);
  double columns = 0, events = 0;
  for (const foretrace::ranks::Rank& r : job->ranks) {
    columns += static_cast<double>(r.trace.bytes());
    events += static_cast<double>(r.trace.size());
  }
  fmt::print(
      "{} ranks, {:.0f} events each, {}: read and answered in {:.2f} s, of which reading {:.2f} s ({} threads)\n",
      job->ranks.size(), events / static_cast<double>(job->ranks.size()), report->kind.parallel, total_s, read_s,
      options.threads);
  fmt::print("columns {:.0f} MB; peak {:.0f} MB: {:.2f} x the columns; {} bytes of JSON\n", columns / 1e6, peak / 1e6,
             peak / columns, written);
  if (!json.empty()) {
    std::ofstream(json) << fmt::format(
        "{{\"ranks\": {}, \"events\": {}, \"read_s\": {}, \"total_s\": {}, \"columns_bytes\": {}, "
        "\"peak_bytes\": {}}}\n",
        job->ranks.size(), events, read_s, total_s, columns, peak);
  }
  return 0;
}
