// search_speed: what each trick of the search for buckets is worth, as dPRO's table has it.
//
//   search_speed TRACE [--workers 16] [--fabric 10GbE] [--measured-ms X] [--evaluations 20000]
//
// The gradients of the median step, each reduced alone at first, are joined by the guided search: plain (every candidate
// simulated in full, every gradient for itself), with the coarsened view, with incremental simulation, with symmetry, and with
// buckets assigned by dynamic programming; at last ten times as long, to see what was left. Each adds to the ones before.

#include <fmt/core.h>

#include <chrono>
#include <cstdlib>
#include <string>

#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "search/communication.hpp"

namespace {

using namespace foretrace;

[[noreturn]] void die(const std::string& message) {
  fmt::print(stderr, "search_speed: {}\n", message);
  std::exit(3);
}

template <class T>
T value(Result<T> result) {
  if (!result) die(result.error().to_string());
  return std::move(*result);
}

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  search::Communication c;
  c.workers = 16;
  c.fabric = "10GbE";
  std::optional<double> measured;
  std::size_t evaluations = 20'000;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const auto next = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
    if (arg == "--workers") {
      c.workers = std::atoi(next().c_str());
    } else if (arg == "--fabric") {
      c.fabric = next();
    } else if (arg == "--measured-ms") {
      measured = std::strtod(next().c_str(), nullptr);
    } else if (arg == "--evaluations") {
      evaluations = std::strtoul(next().c_str(), nullptr, 10);
    } else {
      path = arg;
    }
  }
  if (path.empty()) die("which trace? search_speed FILE [--workers N] [--fabric NAME] [--evaluations N]");
  const trace::Trace trace = value(trace::load(path));
  const analysis::Baseline base = value(analysis::make_baseline(trace, std::nullopt, measured));
  const whatif::Network network = value(search::network_of(c, base.model.device));
  const auto step = value(search::tensor_step(base.model, c, network));
  fmt::print("{}: {} gradients, {} tasks, {} workers over {}\n", path, step->problem.tensors.size(), step->graph.size(),
             c.workers, c.fabric);

  const auto run = [&](const char* name, const search::TensorOptions& options) {
    const auto begin = std::chrono::steady_clock::now();
    const search::TensorResult r = search_tensors(step->problem, separate(step->problem), options);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::size_t buckets = 0;
    for (const auto joined : r.plan.joined_with_previous) buckets += joined == 0 ? 1 : 0;
    fmt::print("  {:<28} {:>8.3f} s   {:>7} evaluations   {:>9.3f} ms -> {:>9.3f} ms   {:>3} buckets\n", name,
               took.count(), r.evaluations, static_cast<double>(r.first_step) / 1e6, static_cast<double>(r.step) / 1e6,
               buckets);
  };
  search::TensorOptions options;
  options.evaluations = evaluations;
  options.coarsened = options.symmetric = options.incremental = options.assign = false;
  run("plain", options);
  options.coarsened = true;
  run("+ coarsened", options);
  options.incremental = true;
  run("+ incremental", options);
  options.symmetric = true;
  run("+ symmetric", options);
  options.symmetric = false;
  options.assign = true;
  run("assigned, not symmetric", options);
  options.evaluations = 10 * evaluations;
  options.idle_rounds = 100;
  run("ten times longer", options);
  return 0;
}
