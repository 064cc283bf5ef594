#include "foretrace/analysis/replay.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/statistics.hpp"
#include "base/text.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/host/measured_step.hpp"
#include "simulate/transplant.hpp"

namespace foretrace::analysis {
namespace {

using graph::Graph;
using trace::kAbsent;

TraceReplay::StepRow row_of(const ReplayedStep& a, const trace::Step& step) {
  TraceReplay::StepRow row;
  row.name = step.name;
  row.number = step.number;
  row.traced = a.traced();
  row.replayed = a.replayed();
  row.error_pct = a.error_pct();
  row.behind = a.graph.periodic;
  row.ramp_up = a.graph.ramp_up;
  if (a.graph.period > 0) {
    row.period = a.graph.period;
    row.period_error_pct = percent_off(row.replayed, a.graph.period);
  }
  row.limits = simulate::limits(a.graph, row.replayed);
  if (a.starts) {
    row.start_error_p50 = a.starts->p50;
    row.start_error_p95 = a.starts->p95;
  }
  row.copies = a.state.copies;
  row.settled = a.state.settled;
  row.tasks = a.graph.size();
  row.dependencies = a.graph.dependencies();
  for (const graph::TaskKind kind : a.graph.kind) row.gpu_tasks += graph::is_gpu(kind) ? 1u : 0u;
  row.notes = a.graph.notes;
  row.breakdown = a.breakdown;
  row.bounds = a.bounds;
  return row;
}

// The costs of the step in `row` through the structure and the distances of another. Steps that do other work are no test.
void cross_check(TraceReplay::StepRow& row, const Graph& own, const Graph& other) {
  const simulate::Transplant costs = simulate::transplant(other, own);
  constexpr std::size_t kOneIn = 50;
  if (costs.unmatched * kOneIn > own.size()) {
    row.cross_missing = fmt::format("{} does other work: {} of {} tasks have no partner there", other.step_name,
                                    format_count(costs.unmatched), format_count(own.size()));
    return;
  }
  row.cross_missing.clear();
  // Both graphs give periods where the GPU runs behind.
  const Ns truth = own.periodic && other.periodic && own.period > 0 ? own.period : row.traced;
  row.cross_error_pct = percent_off(simulate::steady_state(other, {costs.cost, nullptr}).timeline.step, truth);
  row.cross_step = other.step_name;
  row.cross_unmatched = costs.unmatched;
}

// The median by length of those that are neither cold nor ramp-up, else of those that are not cold, else of all; of an even count
// the lower one.
std::size_t median_row(const std::vector<TraceReplay::StepRow>& rows) {
  const auto rank = [](const TraceReplay::StepRow& row) {
    return (row.notes.startup.time() > 0 ? 2 : 0) + (row.ramp_up ? 1 : 0);
  };
  std::vector<std::size_t> order;
  for (int wanted = 0; order.empty(); ++wanted) {
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rank(rows[i]) == wanted) order.push_back(i);
    }
  }
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return rows[a].traced < rows[b].traced; });
  return order[(order.size() - 1) / 2];
}

}  // namespace

double TraceReplay::mean_abs_error_pct() const {
  double sum = 0;
  for (const StepRow& row : steps) sum += std::abs(row.error_pct);
  return steps.empty() ? 0 : sum / static_cast<double>(steps.size());
}

Graph::Notes TraceReplay::notes() const {
  Graph::Notes all;
  for (const StepRow& row : steps) {
    all.refuted_waits += row.notes.refuted_waits;
    all.unexplained_lags += row.notes.unexplained_lags;
    all.unexplained_time += row.notes.unexplained_time;
    all.dropped_soft += row.notes.dropped_soft;
    all.border_tasks += row.notes.border_tasks;
    all.unrecorded_tasks += row.notes.unrecorded_tasks;
    all.inferred_launches += row.notes.inferred_launches;
    // These are counted over the whole trace.
    all.orphans = std::max(all.orphans, row.notes.orphans);
    all.early_kernels = std::max(all.early_kernels, row.notes.early_kernels);
    all.foreign_events = std::max(all.foreign_events, row.notes.foreign_events);
    all.queue_depth_measured |= row.notes.queue_depth_measured;
  }
  return all;
}

Result<TraceReplay> replay(const trace::Trace& trace, const trace::Steps& steps, const ReplayOptions& options) {
  FORETRACE_TRY(const StepGraphs graphs, StepGraphs::open(trace, steps));
  const std::vector<trace::Step>& all = graphs.steps().steps;
  std::vector<std::size_t> wanted(all.size());
  std::iota(wanted.begin(), wanted.end(), std::size_t{0});
  if (options.step) {
    FORETRACE_TRY(const std::size_t one, graphs.steps().by_number(*options.step));
    wanted = {one};
  }
  TraceReplay out;
  out.file = trace.path;
  out.format = trace.format;
  out.step_source = trace::describe(graphs.steps().source);
  out.from_export = graphs.embedded();
  if (trace.distributed.rank != kAbsent) out.rank = trace.distributed.rank;
  if (trace.distributed.world_size != kAbsent) out.world_size = trace.distributed.world_size;

  std::vector<std::size_t> built;
  std::optional<Graph> before;
  for (const std::size_t i : wanted) {
    if (options.progress) options.progress("replaying " + trace.path, built.size(), wanted.size(), "steps");
    Result<Graph> graph = graphs.graph(i);
    if (!graph) {
      if (graph.error().code == ErrorCode::kInternal) return forward(graph);
      out.left_out.push_back({all[i].name, graph.error().message});
      continue;
    }
    ReplayedStep step = replay_step(std::move(*graph));
    TraceReplay::StepRow row = row_of(step, all[i]);
    if (!graphs.embedded()) {
      FORETRACE_TRY(const Graph strict, graphs.graph(i, {.without = {}, .strict = true}));
      row.strict_replayed = simulate::steady_state(strict).timeline.step;
      row.strict_error_pct = percent_off(*row.strict_replayed, row.traced);
    }
    row.cross_missing = wanted.size() > 1 ? "no step before it could be replayed" : "there is no other step";
    if (before) {
      cross_check(row, step.graph, *before);
      // The first step has none before it.
      if (out.steps.size() == 1) cross_check(out.steps[0], *before, step.graph);
    }
    before = std::move(step.graph);
    out.steps.push_back(std::move(row));
    built.push_back(i);
  }
  if (built.empty()) {
    const std::string why = out.left_out.empty() ? "the trace holds no event with a duration" : out.left_out[0].reason;
    return tl::unexpected(Error{ErrorCode::kDeclined, "there is no step to replay: " + why, trace.path,
                                Error::kNoOffset, "`foretrace doctor` shows what the file does hold"});
  }
  out.chosen = median_row(out.steps);
  FORETRACE_TRY(const Graph chosen, graphs.graph(built[out.chosen]));
  FORETRACE_TRY(const host::Measured measured,
                host::measured_step(trace, chosen, out.steps[out.chosen].replayed, options.measurements));
  out.measured = measured.step;
  out.unprofiled = host::unprofiled(chosen, out.measured, measured.prior);
  if (measured.recorded) out.unprofiled.origin = "recorder";
  out.measured_refused = measured.refused;
  out.verdict = step_verdict(trace, chosen, host::apply(chosen, out.unprofiled.factors, measured.prior));
  return out;
}

}  // namespace foretrace::analysis
