#include "simulate/steady_runs.hpp"

#include <algorithm>
#include <cstdlib>

#include "foretrace/graph/graph.hpp"

namespace foretrace::simulate {

using graph::Graph;
using graph::GraphLane;

namespace {

constexpr std::array<std::uint32_t, 2> kCopies = {3, 8};

// Nothing in the step waits for its last work on the GPU, and that work is not done when the step's last line is: the next step
// finds the GPU busy. A CPU-bound trace does not show it; a faster CPU or a slower GPU does.
bool outlives(const Graph& g, const Timeline& timeline) {
  if (g.copies > 1) return false;
  return std::any_of(g.lanes.begin(), g.lanes.end(), [&](const GraphLane& lane) {
    return lane.kind == graph::GraphLaneKind::kGpu && lane.end > lane.begin &&
           timeline.end[lane.end - 1] > timeline.step;
  });
}

}  // namespace

SteadyRuns::SteadyRuns(const Graph& graph, const Options& options) : graph_(graph), options_(options) {}

const SteadyRuns::Row& SteadyRuns::row_of(std::size_t length) {
  std::optional<Row>& row = rows_[length];
  if (!row) {
    const std::uint32_t copies = kCopies[length];
    row.emplace(Row{copies, graph::repeat(graph_, copies), {}});
    if (options_.contention != nullptr) row->contention = repeat(*options_.contention, graph_, copies);
  }
  return *row;
}

std::span<const Ns> SteadyRuns::repeated(std::span<const Ns> cost, std::uint32_t copies) {
  cost_.clear();
  cost_.reserve(cost.size() * copies);
  for (const GraphLane& lane : graph_.lanes) {
    for (std::uint32_t c = 0; c < copies; ++c) {
      cost_.insert(cost_.end(), cost.begin() + lane.begin, cost.begin() + lane.end);
    }
  }
  return cost_;
}

SteadyRuns::Run SteadyRuns::run(std::span<const Ns> cost) {
  if (!graph_.periodic) {
    Options once = options_;
    once.cost = cost;
    simulate(graph_, once, timeline_);
    if (!outlives(graph_, timeline_)) return {timeline_, graph_};
  }
  for (std::size_t length = 0;; ++length) {
    const Row& row = row_of(length);
    Options several = options_;
    several.cost = cost.empty() ? cost : repeated(cost, row.copies);
    if (options_.contention != nullptr) several.contention = &row.contention;
    simulate(row.graph, several, timeline_);
    const std::vector<Ns>& ends = timeline_.copy_ends;
    const Ns last = ends[row.copies - 1] - ends[row.copies - 2];
    const Ns before = ends[row.copies - 2] - ends[row.copies - 3];
    const bool settled = std::abs(last - before) * 1000 <= last;
    if (settled || length + 1 == kCopies.size()) return {timeline_, row.graph, row.copies, settled};
  }
}

SteadyState steady_state(const Graph& graph, const Options& options) {
  SteadyRuns runs(graph, options);
  const SteadyRuns::Run run = runs.run(options.cost);
  SteadyState result;
  result.copies = run.copies;
  result.settled = run.settled;
  if (run.copies > 1) {
    const auto row =
        std::find_if(runs.rows_.begin(), runs.rows_.end(), [&](const auto& r) { return r && r->copies == run.copies; });
    result.repeated = std::move((*row)->graph);
  }
  result.timeline = std::move(runs.timeline_);
  return result;
}

}  // namespace foretrace::simulate
