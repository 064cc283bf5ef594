#pragma once
// One step, simulated unchanged: how well that meets the trace, where the time goes, and what holds the step up. What
// replay, summary, doctor and the exporters share.
//
//   const ReplayedStep step = replay_step(std::move(graph));
//   step.replayed();  step.error_pct();  step.path;  step.breakdown.idle;

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/simulate/simulate.hpp"

namespace foretrace::analysis {

/// A task of the critical path: it waited (a latency, a gap: nothing on the path ran), then it worked.
struct PathSegment {
  std::uint32_t task;  ///< of the graph of one step
  graph::DependencyKind why;
  Ns wait, work;
  Ns start;        ///< of the work, since the begin of the last copy
  bool last_copy;  ///< the task is of the last copy, not of the one before
};

/// Distance between simulated and measured starts of GPU tasks, step begin on step begin.
struct StartErrors {
  std::size_t tasks = 0;  ///< those launched in the step; work from before it has its measured place by construction
  Ns p50 = 0, p95 = 0;
};

struct ReplayedStep {
  graph::Graph graph;
  simulate::SteadyState state;
  simulate::Breakdown breakdown;
  simulate::LowerBounds bounds;
  /// Of the step's period. Waits and work add up to the step.
  std::vector<PathSegment> path;
  std::optional<StartErrors> starts;  ///< nothing when the step launched no GPU work

  [[nodiscard]] Ns traced() const { return graph.traced; }
  [[nodiscard]] Ns replayed() const { return state.timeline.step; }
  /// Signed: negative where the replay is shorter than the trace.
  [[nodiscard]] double error_pct() const;
  /// When a task starts and ends in the last simulated copy of the step, since that copy's begin.
  [[nodiscard]] Ns start(std::uint32_t task) const { return state.timeline.start[last_copy(task)] - begin_; }
  [[nodiscard]] Ns end(std::uint32_t task) const { return state.timeline.end[last_copy(task)] - begin_; }
  [[nodiscard]] graph::DependencyKind cause_kind(std::uint32_t task) const {
    return state.timeline.cause_kind[last_copy(task)];
  }
  /// The task that held this one back; nothing for the step's begin and for tasks of the copy before.
  [[nodiscard]] std::optional<std::uint32_t> cause(std::uint32_t task) const;

  /// The place of a task's last copy in the timeline, and the task behind a place.
  [[nodiscard]] std::uint32_t last_copy(std::uint32_t task) const;
  [[nodiscard]] std::uint32_t task_at(std::uint32_t place) const;
  [[nodiscard]] bool in_last_copy(std::uint32_t place) const { return last_copy(task_at(place)) == place; }

  Ns begin_ = 0;  ///< of the last copy, on the simulated clock
};

/// The graph must have passed graph::verify.
ReplayedStep replay_step(graph::Graph graph);

/// The bottleneck of the step as it runs without the profiler.
std::string bottleneck_without_profiler(const graph::Graph& graph, const host::Unprofiled& unprofiled,
                                        const host::CpuPrior& prior);

}  // namespace foretrace::analysis
