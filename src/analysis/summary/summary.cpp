#include "foretrace/analysis/summary.hpp"

#include "analysis/steadiness.hpp"
#include "analysis/summary/parts.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/host/measured_step.hpp"
#include "graph/step_begin.hpp"
#include "graph/step_kind.hpp"

namespace foretrace::analysis {

using trace::kAbsent;

namespace {

// Time in front of an operation counts towards it; where that is most of a task, its name alone would say that the operation took so long.
void name_gaps(const trace::Trace& trace, const graph::Graph& g, SimulatedParts& step) {
  const std::optional<Ns> begin = graph::step_begin(trace, g);
  if (!begin) return;
  for (SimulatedStep::PathTask& row : step.path_tasks) {
    const std::size_t t = row.task;
    if (g.kind[t] != graph::TaskKind::kCpu || !g.op[t].valid()) continue;
    const Ns lead = trace.events.start[g.op[t].index()] - *begin - g.measured[t];
    if (2 * lead > row.time) row.name = "before " + row.name;
  }
}

void rates(SummaryReport& report) {
  if (!report.batch) return;
  const auto per_second = [](const std::optional<double>& count, Ns time) {
    return count && time > 0 ? std::optional(*count * 1e9 / static_cast<double>(time)) : std::nullopt;
  };
  report.samples_per_s = per_second(report.batch->samples, report.step_duration());
  const Ns unprofiled = report.simulated ? report.simulated->unprofiled.step : 0;
  report.unprofiled_samples_per_s = per_second(report.batch->samples, unprofiled);
  report.tokens_per_s = per_second(report.batch->tokens, unprofiled);
}

}  // namespace

Result<SummaryReport> summarise(const trace::Trace& trace, const OpenStep& open, const SummaryOptions& options) {
  const trace::Steps& steps = open.graphs.steps();
  const trace::Step& step = open.step();
  SummaryReport report;
  report.file = trace.path;
  report.format = trace.format;
  if (trace.distributed.rank != kAbsent) report.rank = trace.distributed.rank;
  if (trace.distributed.world_size != kAbsent) report.world_size = trace.distributed.world_size;
  report.step_source = trace::describe(steps.source);
  for (const trace::Step& one : steps.steps) report.steps.push_back({one.name, one.number, one.duration()});
  report.chosen = open.index;
  report.chosen_by_user = options.step.has_value();
  const ReplayedStep* replayed = open.replayed ? &*open.replayed : nullptr;
  if (replayed == nullptr) report.no_graph = open.replayed.error().message;
  const SummaryInput input{trace, step, replayed, !open.graphs.embedded()};
  summarise_lanes(input, report);
  if (replayed != nullptr) summarise_work(input, report);
  summarise_memory(input, report);
  if (report.lanes.empty() && report.gpu_events == 0) {
    return tl::unexpected(Error{
        ErrorCode::kDeclined, "the step holds no operations, runtime calls or GPU work: there is nothing to summarise",
        trace.path, Error::kNoOffset, "`foretrace doctor` shows what the file does hold"});
  }
  if (replayed != nullptr) {
    if (input.own_events) report.step_kind = to_string(graph::step_nature(trace, replayed->graph).kind);
    FORETRACE_TRY(const host::Measured measured,
                  host::measured_step(trace, replayed->graph, replayed->replayed(), options.measurements));
    report.simulated = summarise_simulation(trace, *replayed, measured.step, measured.prior);
    if (measured.recorded) report.simulated->unprofiled.origin = "recorder";
    report.simulated->measured_refused = measured.refused;
    if (input.own_events) {
      name_gaps(trace, replayed->graph, *report.simulated);
      name_gaps(trace, replayed->graph, report.simulated->without_profiler);
    }
    report.simulated->startup = replayed->graph.notes.startup.time();
    report.simulated->steadiness = steadiness_text(replayed->graph);
  }
  report.batch = batch_of_step(input);
  if (options.samples) {
    const std::optional<double> tokens =
        report.batch && report.batch->samples == options.samples ? report.batch->tokens : std::nullopt;
    report.batch = StepBatch{options.samples, tokens, "--batch"};
  }
  rates(report);
  return report;
}

Result<SummaryReport> summarise(const trace::Trace& trace, const trace::Steps& steps, const SummaryOptions& options) {
  FORETRACE_TRY(const OpenStep step, open_step(trace, steps, options.step));
  return summarise(trace, step, options);
}

}  // namespace foretrace::analysis
