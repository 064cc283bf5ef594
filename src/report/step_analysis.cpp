#include "report/step_analysis.hpp"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/statistics.hpp"

namespace foretrace::report {
namespace {

using graph::DependencyKind;
using graph::GraphLane;

// The critical path inside the step's period, cut into waiting and working without overlap.
std::vector<PathSegment> path_of(const StepAnalysis& a) {
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

std::optional<StartErrors> start_errors(const StepAnalysis& a) {
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
  errors.p95 = quantile(off, 0.95);
  return errors;
}

}  // namespace

double StepAnalysis::error_pct() const {
  if (traced() <= 0) return 0;
  return 100.0 * static_cast<double>(replayed() - traced()) / static_cast<double>(traced());
}

std::uint32_t StepAnalysis::last_copy(std::uint32_t task) const {
  const GraphLane& lane = graph.lanes[graph.lane[task]];
  return lane.begin * state.copies + (state.copies - 1) * (lane.end - lane.begin) + (task - lane.begin);
}

std::uint32_t StepAnalysis::task_at(std::uint32_t place) const {
  if (state.copies == 1) return place;
  const GraphLane& lane = graph.lanes[state.repeated.lane[place]];
  return lane.begin + (place - lane.begin * state.copies) % (lane.end - lane.begin);
}

std::optional<std::uint32_t> StepAnalysis::cause(std::uint32_t task) const {
  const std::uint32_t by = state.timeline.cause[last_copy(task)];
  if (by == simulate::Timeline::kNoCause || !in_last_copy(by)) return std::nullopt;
  return task_at(by);
}

StepAnalysis analyse(graph::Graph graph) {
  StepAnalysis out;
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

std::string bottleneck_without_profiler(const graph::Graph& graph, const whatif::Unprofiled& unprofiled) {
  const graph::Graph real = whatif::apply(graph, unprofiled.factors, {});
  const simulate::SteadyState state = simulate::steady_state(real);
  return simulate::bottleneck(simulate::breakdown(state.graph_of(real), state.timeline));
}

std::vector<double> percentages(const std::vector<Ns>& parts, Ns whole) {
  std::vector<double> out(parts.size(), 0.0);
  if (whole <= 0) return out;
  // Tenths of a per cent, the largest remainders rounded up until they add up.
  constexpr int kTenths = 1000;
  std::vector<int> tenths(parts.size());
  std::vector<double> left(parts.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double exact = kTenths * static_cast<double>(parts[i]) / static_cast<double>(whole);
    tenths[i] = static_cast<int>(exact);
    left[i] = exact - tenths[i];
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return left[a] > left[b]; });
  int missing = kTenths - std::accumulate(tenths.begin(), tenths.end(), 0);
  for (std::size_t i = 0; i < order.size() && missing > 0; ++i, --missing) ++tenths[order[i]];
  for (std::size_t i = 0; i < parts.size(); ++i) out[i] = tenths[i] / 10.0;
  return out;
}

std::string_view describe(DependencyKind cause) {
  constexpr std::array<std::string_view, graph::kDependencyKinds> kWords = {
      "nothing (before the first task or after the last)",
      "the gap between two tasks of a stream",
      "the CPU's launch",
      "room in the launch queue",
      "a synchronisation",
      "work of another stream",
      "room on the GPU",
      "work of the same CUDA graph",
      "another thread",
      "work from before the step",
      "another rank"};
  return kWords[static_cast<std::size_t>(cause)];
}

}  // namespace foretrace::report
