#pragma once
// One step simulated unchanged: how well that matches the trace, where the time goes, and what the bottleneck is. Shared by
// replay, summary and the exporters.
//
//   const ReplayedStep step = replay_step(std::move(graph));
//   step.replayed();  step.error_pct();  step.path;  step.breakdown.idle;

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/trace.hpp"

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

  /// The position of a task's last copy in the timeline, and the task at a position.
  [[nodiscard]] std::uint32_t last_copy(std::uint32_t task) const;
  [[nodiscard]] std::uint32_t task_at(std::uint32_t place) const;
  [[nodiscard]] bool in_last_copy(std::uint32_t place) const { return last_copy(task_at(place)) == place; }

  Ns begin_ = 0;  ///< of the last copy, on the simulated clock
};

/// The graph must have passed graph::verify.
ReplayedStep replay_step(graph::Graph graph);

/// One step of a trace, chosen and replayed. Its graph is built here once for everything that looks at the step.
struct OpenStep {
  StepGraphs graphs;
  std::size_t index = 0;
  Result<ReplayedStep> replayed;  ///< an error when no graph could be built
  [[nodiscard]] const trace::Step& step() const { return graphs.steps().steps[index]; }
};
/// `number`: as in ProfilerStep#N, else the median step. Fails as StepGraphs::open and StepGraphs::choose do.
Result<OpenStep> open_step(const trace::Trace& trace, const trace::Steps& steps, std::optional<std::int64_t> number);

// replay: every step of a trace simulated unchanged and compared with the trace, and the step without the profiler.
//
// The graph keeps the device's gaps and latencies as measured, so matching the trace is necessary but not sufficient. Two
// stricter figures say more: the replay without the lags that no rule explains, and the costs of one step in the graph of
// another.
//
//   Result<TraceReplay> all = replay(trace, trace::find_steps(trace));
//   all->steps[0].error_pct;  all->unprofiled.step;
//
// All figures are in ns here, in ms and us in text and JSON.

struct ReplayOptions {
  std::optional<std::int64_t> step = {};     ///< only the step named ProfilerStep#N; default all
  host::UserMeasurements measurements = {};  ///< default: what the recorder stored
  Progress progress = {};
};

struct TraceReplay {
  std::string file;
  std::string format;
  std::string step_source;  ///< "ProfilerStep ranges"
  std::optional<std::int64_t> rank, world_size;
  bool from_export = false;  ///< the graph was in the file; nothing was built

  struct StepRow {
    std::string name;
    std::int64_t number = 0;
    Ns traced = 0, replayed = 0;
    double error_pct = 0;  ///< signed: negative where the replay is shorter than the trace
    /// Where the GPU runs behind the CPU, the distance of the same work in two steps; else the range. Nothing without a
    /// neighbouring step.
    std::optional<Ns> period;
    std::optional<double> period_error_pct;
    bool behind = false;      ///< the step's GPU work outlives its range
    bool ramp_up = false;     ///< its range is shorter than the period: the CPU is still filling the GPU's queue
    simulate::Limits limits;  ///< how far the step follows its costs
    /// Distance of simulated from measured starts of GPU tasks, step begin on step begin; nothing without such tasks.
    std::optional<Ns> start_error_p50, start_error_p95;
    /// The same without what no rule explains: lags of more than 20 us are kept as measured above, here they are not.
    /// Nothing when the graph was in the file.
    std::optional<Ns> strict_replayed;
    std::optional<double> strict_error_pct;
    /// This step's costs in the graph of another step, which then has to give this step's length. Nothing where no other
    /// step does the same work: where more than 2 % of the tasks have no partner.
    std::optional<double> cross_error_pct;
    std::string cross_step;
    std::string cross_missing;          ///< why there is no such figure
    std::uint64_t cross_unmatched = 0;  ///< tasks without a partner in the other step
    std::uint32_t copies = 1;           ///< steps simulated in a row until the period repeated
    bool settled = true;                ///< it did
    std::uint64_t tasks = 0, dependencies = 0, gpu_tasks = 0;
    graph::Graph::Notes notes;
    simulate::Breakdown breakdown;
    simulate::LowerBounds bounds;
  };
  std::vector<StepRow> steps;
  struct LeftOut {
    std::string name, reason;
  };
  std::vector<LeftOut> left_out;  ///< steps that could not be replayed
  std::size_t chosen = 0;         ///< index into steps of the median step; the figures below are about it

  host::Unprofiled unprofiled;
  std::optional<Ns> measured;    ///< the real step, where known
  std::string measured_refused;  ///< why the recorder's measurement is not used; empty when it is, or there is none
  StepVerdict verdict;

  [[nodiscard]] double mean_abs_error_pct() const;
  /// What the builder could not explain or left out, summed over the steps; counts of the whole trace taken once.
  [[nodiscard]] graph::Graph::Notes notes() const;
};

/// Fails when the step asked for does not exist (kUsage) or no step can be replayed (kDeclined).
Result<TraceReplay> replay(const trace::Trace& trace, const trace::Steps& steps, const ReplayOptions& options = {});

}  // namespace foretrace::analysis
