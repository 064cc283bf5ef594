// whatif_speed: what one what-if costs on a large graph, on one thread.
//
//   whatif_speed examples/resnet50-h200.json.gz [--repetitions 5] [--tasks 1000000]
//
// The median step stands in a row until it has --tasks tasks. A change of costs: tasks selected by the operation around
// them and scaled, and the step simulated, without rebuilding anything. A change of structure: a tenth of the kernels
// removed with their launches, the graph rebuilt, verified and simulated. The best of all repetitions counts.

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/draft.hpp"

namespace {

using foretrace::Ns;
using foretrace::graph::Graph;
using foretrace::whatif::Draft;
using foretrace::whatif::Selection;
using foretrace::whatif::TaskKind;

[[noreturn]] void die(const std::string& message) {
  fmt::print(stderr, "whatif_speed: {}\n", message);
  std::exit(3);
}

template <class Work>
double seconds(Work work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char** argv) {
  std::string path;
  std::size_t repetitions = 5;
  std::size_t wanted = 1'000'000;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg == "--repetitions" && i + 1 < argc) {
      repetitions = std::max<std::size_t>(1, std::strtoul(argv[++i], nullptr, 10));
    } else if (arg == "--tasks" && i + 1 < argc) {
      wanted = std::strtoul(argv[++i], nullptr, 10);
    } else {
      path = arg;
    }
  }
  if (path.empty()) die("which trace? whatif_speed FILE [--repetitions N] [--tasks N]");
  const auto trace = foretrace::trace::load(path);
  if (!trace) die(trace.error().to_string());
  const auto steps = foretrace::trace::find_steps(*trace);
  if (steps.steps.empty()) die("the trace holds no step");
  const auto median = foretrace::graph::GraphBuilder(*trace, steps).build(steps.median());
  if (!median) die(median.error().to_string());
  const Graph row = foretrace::graph::repeat(*median, static_cast<std::uint32_t>(wanted / median->size() + 1));

  double costs = 1e30;
  double structure = 1e30;
  std::size_t selected = 0;
  volatile Ns sink = 0;
  foretrace::simulate::Timeline timeline;
  for (std::size_t r = 0; r < repetitions; ++r) {
    costs = std::min(costs, seconds([&] {
                       Draft draft(row, &*trace);
                       const Selection tasks = draft.select({.kind = TaskKind::kKernel, .op = "aten::*"});
                       selected = tasks.size();
                       draft.scale(tasks, 0.5);
                       foretrace::simulate::simulate(row, {draft.costs(), nullptr}, timeline);
                       sink = timeline.step;
                     }));
    structure = std::min(
        structure, seconds([&] {
          Draft draft(row, &*trace);
          draft.remove(draft.select({.kind = TaskKind::kKernel, .where = [](std::uint32_t t) { return t % 10 == 0; }}),
                       Draft::kWithLaunch);
          const Graph changed = draft.commit();
          if (!verify(changed)) die("the changed graph is not sound");
          foretrace::simulate::simulate(changed, {}, timeline);
          sink = timeline.step;
        }));
  }
  fmt::print("{}: {:.2f} M tasks, {} of them selected\n", path, static_cast<double>(row.size()) / 1e6, selected);
  fmt::print("  select, scale, simulate           {:.4f} s\n", costs);
  fmt::print("  remove, rebuild, verify, simulate {:.4f} s\n", structure);
  fmt::print("{} one what-if in {:.3f} s, goal <= 0.25 for 1 M tasks\n", costs <= 0.25 ? "ok  " : "MISS", costs);
  return 0;
}
