#include <algorithm>

#include "base/statistics.hpp"
#include "foretrace/analysis/replay.hpp"

namespace foretrace::analysis {
namespace {

using graph::GraphLane;

// The critical path inside the step's period, cut into waiting and working without overlap.
std::vector<PathSegment> path_of(const ReplayedStep& a) {
  const simulate::Timeline& t = a.state.timeline;
  const graph::Graph& g = a.state.graph_of(a.graph);
  Ns at = t.copy_ends.size() > 1 ? t.copy_ends[t.copy_ends.size() - 2] : 0;
  std::vector<PathSegment> path;
  for (const simulate::PathStep& step : simulate::critical_path(g, t)) {
    const Ns start = t.start[step.task], end = t.end[step.task];
    if (end <= at && !(end == at && start == end && !path.empty())) continue;
    const Ns wait = std::max<Ns>(0, start - at);
    const Ns from = std::max(start, at);
    const Ns work = std::max<Ns>(0, end - from);
    at = std::max(at, end);
    path.push_back({a.task_at(step.task), step.why, wait, work, from - a.begin_, a.in_last_copy(step.task)});
  }
  return path;
}

std::optional<StartErrors> start_errors(const ReplayedStep& a) {
  // Where the step waited for work that is not in the file, places on the trace's clock are not those of the step.
  if (a.graph.notes.waited > 0) return std::nullopt;
  std::vector<Ns> off;
  for (std::uint32_t t = 0; t < a.graph.size(); ++t) {
    if (!graph::is_gpu(a.graph.kind[t]) || !a.graph.launch[t].valid()) continue;
    off.push_back(std::abs(a.start(t) - a.graph.measured[t]));
  }
  if (off.empty()) return std::nullopt;
  StartErrors errors;
  errors.tasks = off.size();
  errors.p50 = quantile(off, 0.5);
  errors.p95 = quantile(off, 0.95);  // the 95th percentile, by definition
  return errors;
}

}  // namespace

double ReplayedStep::error_pct() const {
  if (traced() <= 0) return 0;
  return 100.0 * static_cast<double>(replayed() - traced()) / static_cast<double>(traced());
}

std::uint32_t ReplayedStep::last_copy(std::uint32_t task) const {
  const GraphLane& lane = graph.lanes[graph.lane[task]];
  return lane.begin * state.copies + (state.copies - 1) * (lane.end - lane.begin) + (task - lane.begin);
}

std::uint32_t ReplayedStep::task_at(std::uint32_t place) const {
  if (state.copies == 1) return place;
  const GraphLane& lane = graph.lanes[state.repeated.lane[place]];
  return lane.begin + (place - lane.begin * state.copies) % (lane.end - lane.begin);
}

std::optional<std::uint32_t> ReplayedStep::cause(std::uint32_t task) const {
  const std::uint32_t by = state.timeline.cause[last_copy(task)];
  if (by == kNone || !in_last_copy(by)) return std::nullopt;
  return task_at(by);
}

ReplayedStep replay_step(graph::Graph graph) {
  ReplayedStep out;
  out.graph = std::move(graph);
  out.state = simulate::steady_state(out.graph);
  const graph::Graph& simulated = out.state.graph_of(out.graph);
  out.breakdown = simulate::breakdown(simulated, out.state.timeline);
  out.bounds = simulate::lower_bounds(out.graph);
  out.begin_ = out.state.timeline.start[out.last_copy(out.graph.lanes[out.graph.main_lane].begin)];
  out.path = path_of(out);
  out.starts = start_errors(out);
  return out;
}

Result<OpenStep> open_step(const trace::Trace& trace, const trace::Steps& steps, std::optional<std::int64_t> number) {
  FORETRACE_TRY(StepGraphs graphs, StepGraphs::open(trace, steps));
  FORETRACE_TRY(const std::size_t index, graphs.choose(number));
  Result<graph::Graph> graph = graphs.graph(index);
  if (!graph) return OpenStep{std::move(graphs), index, forward(graph)};
  return OpenStep{std::move(graphs), index, replay_step(std::move(*graph))};
}

}  // namespace foretrace::analysis
