// graph_speed: how fast graphs are built and simulated, beside what the arrays allow, in one run on one file.
//
//   graph_speed build/bench/small.json [--repetitions 5] [--tasks 1000000] [--json result.json]
//
// Building: sorting and linking the trace, then the graph of every step, one thread; events of the file a second.
// Critical paths: from the loaded trace (its index, the graph of every step, one simulation and the path of each), which
// is what HolisticTraceAnalysis calls critical_path_analysis.
// Simulating: the median step in a row until it has --tasks tasks. The yardstick is the least a simulation can do: one
// pass over the same arrays in an order found beforehand, maximum of end + lag, no queues, no causes. Cases are
// interleaved, so that a busy moment of the machine hits all of them alike; the best of all repetitions counts.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace {

using foretrace::Ns;
using foretrace::Result;
using foretrace::graph::Graph;
using foretrace::graph::GraphBuilder;
using Clock = std::chrono::steady_clock;

[[noreturn]] void die(const std::string& message) {
  fmt::print(stderr, "graph_speed: {}\n", message);
  std::exit(3);
}

struct Options {
  std::string path;
  std::string json;
  std::size_t repetitions = 5;
  std::size_t tasks = 1'000'000;
};

Options parse(int argc, char** argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (arg == "--repetitions") {
      o.repetitions = std::max<std::size_t>(1, std::strtoul(value().c_str(), nullptr, 10));
    } else if (arg == "--tasks") {
      o.tasks = std::strtoul(value().c_str(), nullptr, 10);
    } else if (arg == "--json") {
      o.json = value();
    } else {
      o.path = arg;
    }
  }
  if (o.path.empty()) die("which trace? graph_speed FILE [--repetitions N] [--tasks N] [--json FILE]");
  return o;
}

double seconds(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// The yardstick: longest paths from an order known to be sound.
class BarePass {
 public:
  explicit BarePass(const Graph& g) : g_(g), start_(g.size()) {
    for (const foretrace::graph::TaskRun run : g.order) {
      for (std::uint32_t t = run.begin; t < run.end; ++t) order_.push_back(t);
    }
    last_.resize(g.size());
    for (const auto& lane : g.lanes) {
      if (lane.end > lane.begin) last_[lane.end - 1] = 1;
    }
  }

  Ns run() {
    std::fill(start_.begin(), start_.end(), 0);
    for (const std::uint32_t t : order_) {
      const Ns end = start_[t] + g_.cost[t];
      for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
        Ns& to = start_[g_.dep_to[d]];
        to = std::max(to, end + g_.dep_lag[d]);
      }
      if (last_[t] == 0) start_[t + 1] = std::max(start_[t + 1], end + g_.lane_lag[t + 1]);
    }
    return start_[g_.last.index()];
  }

 private:
  const Graph& g_;
  std::vector<std::uint32_t> order_;
  std::vector<Ns> start_;
  std::vector<char> last_;
};

struct Case {
  std::string key, name;
  double amount;  // events or tasks
  std::function<void()> run;
  double best = 1e30;
};

}  // namespace

int main(int argc, char** argv) {
  const Options options = parse(argc, argv);
  const Result<foretrace::trace::Trace> trace = foretrace::trace::load(options.path);
  if (!trace) die(trace.error().to_string());
  const foretrace::trace::Steps steps = foretrace::trace::find_steps(*trace);
  if (steps.steps.empty()) die("the trace holds no step");

  const GraphBuilder builder(*trace, steps);
  const Result<Graph> median = builder.build(steps.median());
  if (!median) die(median.error().to_string());
  const auto copies = static_cast<std::uint32_t>(options.tasks / median->size() + 1);
  const Graph row = foretrace::graph::repeat(*median, copies);
  if (const foretrace::Status sound = verify(row); !sound) die(sound.error().to_string());
  BarePass bare(row);

  std::size_t tasks = 0;
  std::size_t path_tasks = 0;
  volatile Ns sink = 0;
  std::optional<GraphBuilder> again;
  foretrace::simulate::Timeline timeline;
  const auto events = static_cast<double>(trace->size());
  std::vector<Case> cases = {
      {"index", "sort and link the trace", events, [&] { again.emplace(*trace, steps); }},
      {"build", "graphs of all steps", events,
       [&] {
         tasks = 0;
         for (std::size_t s = 0; s < steps.steps.size(); ++s) {
           if (const Result<Graph> g = again->build(s)) tasks += g->size();
         }
       }},
      {"bare", "bare longest-path pass", static_cast<double>(row.size()), [&] { sink = bare.run(); }},
      {"simulate", "simulate", static_cast<double>(row.size()),
       [&] {
         foretrace::simulate::simulate(row, {}, timeline);
         sink = timeline.step;
       }},
      {"simulate_fresh", "simulate, memory not reused", static_cast<double>(row.size()),
       [&] { sink = foretrace::simulate::simulate(row).step; }},
      {"path", "loaded trace to critical paths", events,
       [&] {
         const GraphBuilder fresh(*trace, steps);
         path_tasks = 0;
         for (std::size_t s = 0; s < steps.steps.size(); ++s) {
           const Result<Graph> g = fresh.build(s);
           if (!g) continue;
           foretrace::simulate::simulate(*g, {}, timeline);
           path_tasks += critical_path(*g, timeline).size();
         }
       }},
      {"verify", "verify", static_cast<double>(row.size()), [&] { sink = verify(row) ? 1 : 0; }},
  };
  // Short cases run several times in a row, or a busy neighbour is all they see.
  constexpr double kShort = 0.05;
  for (std::size_t r = 0; r < options.repetitions; ++r) {
    for (Case& c : cases) {
      double spent = 0;
      do {
        const double s = seconds(c.run);
        c.best = std::min(c.best, s);
        spent += s;
      } while (spent < kShort);
    }
  }

  const auto best = [&](const std::string& key) {
    return std::find_if(cases.begin(), cases.end(), [&](const Case& c) { return c.key == key; })->best;
  };
  fmt::print(
      "{}: {:.2f} M events, {} steps, {:.2f} M tasks in their graphs; simulated: {} x {} = {:.2f} M tasks, {:.2f} M "
      "dependencies\n",
      options.path, events / 1e6, steps.steps.size(), static_cast<double>(tasks) / 1e6, copies, median->size(),
      static_cast<double>(row.size()) / 1e6, static_cast<double>(row.dependencies()) / 1e6);
  for (const Case& c : cases) {
    fmt::print("  {:28} {:9.4f} s {:9.2f} M/s\n", c.name, c.best, c.amount / c.best / 1e6);
  }
  const double build_rate = events / (best("index") + best("build"));
  const double simulate_rate = static_cast<double>(row.size()) / best("simulate");
  const double ratio = best("bare") / best("simulate");
  const auto goal = [](bool reached) { return reached ? "ok  " : "MISS"; };
  fmt::print("{} build {:.2f} M events/s, goal >= 2\n", goal(build_rate >= 2e6), build_rate / 1e6);
  fmt::print("{} simulate {:.2f} M tasks/s, goal >= 10\n", goal(simulate_rate >= 10e6), simulate_rate / 1e6);
  fmt::print("{} simulate at {:.2f} of the bare pass, goal >= 0.25\n", goal(ratio >= 0.25), ratio);
  if (!options.json.empty()) {
    std::ofstream out(options.json);
    out << fmt::format(
        "{{\"events\": {}, \"steps\": {}, \"graph_tasks\": {}, \"tasks\": {}, \"dependencies\": {}, "
        "\"index_s\": {}, \"build_s\": {}, \"bare_s\": {}, \"simulate_s\": {}, \"verify_s\": {}, \"path_s\": {}, "
        "\"path_tasks\": {}}}\n",
        trace->size(), steps.steps.size(), tasks, row.size(), row.dependencies(), best("index"), best("build"),
        best("bare"), best("simulate"), best("verify"), best("path"), path_tasks);
    if (!out) die("cannot write " + options.json);
  }
  return 0;
}
