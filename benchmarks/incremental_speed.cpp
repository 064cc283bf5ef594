// incremental_speed: what one move costs, simulated in full and incrementally, on the same graph in one run.
//
//   incremental_speed TRACE [--tasks 100000] [--moves 2000] [--json result.json]
//
// The median step in a row until it has --tasks tasks. A move gives one task another cost (half to twice). A move is local
// when at most 2 % of the tasks move by something else than nothing or one constant. Every answer is compared.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "simulate/incremental.hpp"

namespace {

using foretrace::Ns;
using foretrace::simulate::Change;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& message) {
  fmt::print(stderr, "incremental_speed: {}\n", message);
  std::exit(3);
}

double microseconds(Clock::time_point since) {
  return std::chrono::duration<double, std::micro>(Clock::now() - since).count();
}

struct Sums {
  std::size_t moves = 0;
  double full = 0, incremental = 0, simulated = 0;
};

void print(const char* name, const Sums& s) {
  const auto n = static_cast<double>(std::max<std::size_t>(1, s.moves));
  fmt::print("{:<12} {:>6} moves   full {:>8.1f} µs   incremental {:>8.1f} µs   {:>6.1f} x   {:>5.2f} % simulated\n",
             name, s.moves, s.full / n, s.incremental / n, s.full / std::max(1e-9, s.incremental),
             100 * s.simulated / n);
}

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  std::string json;
  std::size_t tasks = 100'000;
  std::size_t moves = 2000;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (arg == "--tasks") {
      tasks = std::strtoul(value().c_str(), nullptr, 10);
    } else if (arg == "--moves") {
      moves = std::strtoul(value().c_str(), nullptr, 10);
    } else if (arg == "--json") {
      json = value();
    } else {
      path = arg;
    }
  }
  if (path.empty()) die("which trace? incremental_speed FILE [--tasks N] [--moves N] [--json FILE]");
  const auto trace = foretrace::trace::load(path);
  if (!trace) die(trace.error().to_string());
  const auto steps = foretrace::trace::find_steps(*trace);
  if (steps.steps.empty()) die("the trace holds no step");
  const foretrace::graph::GraphBuilder builder(*trace, steps);
  const auto step = builder.build(steps.median());
  if (!step) die(step.error().to_string());
  const auto copies = static_cast<std::uint32_t>(std::max<std::size_t>(1, (tasks + step->size() - 1) / step->size()));
  const foretrace::graph::Graph g = foretrace::graph::repeat(*step, copies);

  auto begin = Clock::now();
  foretrace::simulate::Incremental incremental = *foretrace::simulate::Incremental::make(g);
  const double prepared = microseconds(begin) / 1000;
  fmt::print("{} tasks, {} dependencies; prepared in {:.1f} ms\n", g.size(), g.dependencies(), prepared);

  std::mt19937_64 random(1);
  std::vector<Ns> cost(g.cost.begin(), g.cost.end());
  foretrace::simulate::Timeline full;
  const foretrace::simulate::Timeline base = foretrace::simulate::simulate(g);
  Sums local;
  Sums all;
  while (all.moves < moves) {
    const auto task = static_cast<std::uint32_t>(random() % g.size());
    const Ns becomes = g.cost[task] * static_cast<Ns>(50 + random() % 151) / 100;
    if (becomes == g.cost[task]) continue;
    cost[task] = becomes;
    begin = Clock::now();
    foretrace::simulate::simulate(g, {cost, nullptr}, full);
    const double took_full = microseconds(begin);
    cost[task] = g.cost[task];
    begin = Clock::now();
    const Ns answer = incremental.what_if({{Change::kCost, task, becomes}});
    const double took = microseconds(begin);
    if (answer != full.step) die("the answers differ");
    std::map<Ns, std::size_t> by;
    for (std::uint32_t t = 0; t < g.size(); ++t) ++by[full.start[t] - base.start[t]];
    std::size_t most = 0;
    for (const auto& [d, n] : by) most = d == 0 ? most : std::max(most, n);
    const std::size_t others = g.size() - by[0] - most;
    const auto add = [&](Sums& s) {
      ++s.moves;
      s.full += took_full;
      s.incremental += took;
      s.simulated += static_cast<double>(incremental.effort().simulated) / static_cast<double>(g.size());
    };
    add(all);
    if (others * 50 <= g.size()) add(local);
  }
  print("local moves", local);
  print("all moves", all);
  if (!json.empty()) {
    const auto n = static_cast<double>(std::max<std::size_t>(1, local.moves));
    std::ofstream(json) << fmt::format(
        "{{\"tasks\":{},\"moves\":{},\"local\":{},\"full_us\":{:.2f},\"incremental_us\":{:.2f},\"ratio\":{:.2f},"
        "\"ratio_all\":{:.2f},\"prepare_ms\":{:.2f}}}\n",
        g.size(), all.moves, local.moves, local.full / n, local.incremental / n, local.full / local.incremental,
        all.full / all.incremental, prepared);
  }
  return 0;
}
