// ranks_speed: how fast the graph over many ranks is put together and simulated, in one run.
//
//   ranks_speed FILE… [--ranks 64] [--tasks 50000] [--repetitions 5] [--json result.json]
//
// FILE… are traces of the ranks of one real job. They are taken in turn until there are --ranks of them, each rank's steps
// in a row until it has --tasks tasks: real kernels, launches, waits and collectives, as many ranks as asked for. The graph
// of one step of all of them is repeated in the same way, so what is simulated is one graph of ranks x tasks.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "ranks/clocks.hpp"
#include "ranks/collectives.hpp"
#include "ranks/common_steps.hpp"
#include "ranks/job_graph.hpp"

namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& message) {
  fmt::print(stderr, "ranks_speed: {}\n", message);
  std::exit(3);
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> files;
  std::size_t ranks = 64, tasks = 50'000, repetitions = 5;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (arg == "--ranks") {
      ranks = std::strtoul(value().c_str(), nullptr, 10);
    } else if (arg == "--tasks") {
      tasks = std::strtoul(value().c_str(), nullptr, 10);
    } else if (arg == "--repetitions") {
      repetitions = std::max<std::size_t>(1, std::strtoul(value().c_str(), nullptr, 10));
    } else if (arg == "--json") {
      json = value();
    } else {
      files.push_back(arg);
    }
  }
  if (files.empty()) die("which traces? ranks_speed FILE… [--ranks N] [--tasks N]");
  std::vector<foretrace::trace::Trace> traces;
  for (std::size_t r = 0; r < ranks; ++r) {
    auto trace = foretrace::trace::load(files[r % files.size()]);
    if (!trace) die(trace.error().to_string());
    trace->distributed.rank = static_cast<std::int64_t>(r);
    trace->distributed.world_size = static_cast<std::int64_t>(ranks);
    traces.push_back(std::move(*trace));
  }
  auto job = foretrace::ranks::assemble(std::move(traces));
  if (!job) die(job.error().to_string());

  const auto match_begin = Clock::now();
  const foretrace::ranks::Matching matching = foretrace::ranks::match(*job);
  const double match_s = seconds_since(match_begin);
  const auto align_begin = Clock::now();
  const foretrace::ranks::Clocks clocks = foretrace::ranks::align_clocks(*job, matching);
  const double align_s = seconds_since(align_begin);
  const auto steps = foretrace::ranks::common_steps(*job, matching, clocks);
  if (steps.steps.empty()) die("the ranks have no step in common");
  std::vector<std::string> notes;
  const auto build_begin = Clock::now();
  auto graph = foretrace::ranks::build_job_graph(*job, matching, clocks, steps.steps.front(), notes, {1});
  if (!graph) die(graph.error().to_string());
  const double build_s = seconds_since(build_begin);

  const std::size_t one = graph->graph.size();
  const auto copies = static_cast<std::uint32_t>(std::max<std::size_t>(1, (ranks * tasks + one - 1) / one));
  const foretrace::graph::Graph all = copies > 1 ? foretrace::graph::repeat(graph->graph, copies) : graph->graph;
  if (const auto sound = foretrace::graph::verify(all); !sound) die(sound.error().to_string());
  foretrace::simulate::Timeline timeline;
  double best = 1e30;
  for (std::size_t i = 0; i < repetitions; ++i) {
    const auto begin = Clock::now();
    foretrace::simulate::simulate(all, {}, timeline);
    best = std::min(best, seconds_since(begin));
  }
  const double rate = static_cast<double>(all.size()) / best;
  // Every copy takes as long as the step: nothing was skipped.
  foretrace::Ns end = 0;
  for (const foretrace::Ns e : timeline.end) end = std::max(end, e);
  const foretrace::simulate::Timeline single = foretrace::simulate::simulate(graph->graph);
  if (end < single.step * copies) die("the simulation ends too early");
  fmt::print(
      "{} ranks, {} collectives matched in {:.3f} s, clocks in {:.3f} s, graph of {} tasks in {:.3f} s (1 thread)\n",
      job->ranks.size(), matching.collectives.size(), match_s, align_s, one, build_s);
  fmt::print("{} tasks ({} a rank, {} in a row) simulated in {:.3f} s: {:.1f} M tasks/s\n", all.size(),
             all.size() / ranks, copies, best, rate / 1e6);
  if (!json.empty()) {
    std::ofstream(json) << fmt::format(
        "{{\"ranks\": {}, \"tasks\": {}, \"copies\": {}, \"simulate_s\": {}, \"tasks_per_s\": {}, \"build_s\": {}, "
        "\"align_s\": {}, \"match_s\": {}}}\n",
        ranks, all.size(), copies, best, rate, build_s, align_s, match_s);
  }
  return 0;
}
