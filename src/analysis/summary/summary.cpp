#include "foretrace/analysis/summary.hpp"

#include <cmath>

#include "analysis/summary/parts.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/host/measured_step.hpp"

namespace foretrace::analysis {
namespace {

using trace::kAbsent;

tl::unexpected<Error> declined(const trace::Trace& trace, std::string message) {
  return tl::unexpected(Error{ErrorCode::kDeclined, std::move(message), trace.path, Error::kNoOffset,
                              "`foretrace doctor` shows what the file does hold"});
}

}  // namespace

Result<SummaryReport> summarise(const trace::Trace& trace, const trace::Steps& steps, const SummaryOptions& options) {
  FORETRACE_TRY(const StepGraphs graphs, StepGraphs::open(trace, steps));
  const std::vector<trace::Step>& all = graphs.steps().steps;
  if (all.empty()) {
    return declined(trace, "the trace holds no event with a duration, so there is no step to look at");
  }
  SummaryReport report;
  report.file = trace.path;
  report.format = trace.format;
  if (trace.distributed.rank != kAbsent) report.rank = trace.distributed.rank;
  if (trace.distributed.world_size != kAbsent) report.world_size = trace.distributed.world_size;
  report.step_source = trace::describe(graphs.steps().source);
  for (const trace::Step& step : all) report.steps.push_back({step.name, step.number, step.duration()});
  report.chosen = graphs.median();
  if (options.step) {
    FORETRACE_TRY(report.chosen, graphs.steps().by_number(*options.step));
    report.chosen_by_user = true;
  }
  const trace::Step& step = all[report.chosen];
  const auto per_second = [&](Ns duration) {
    return options.samples && duration > 0 ? std::optional(*options.samples * 1e9 / static_cast<double>(duration))
                                           : std::nullopt;
  };
  report.samples_per_s = per_second(step.duration());

  Result<graph::Graph> graph = graphs.graph(report.chosen);
  std::optional<ReplayedStep> replayed;
  if (graph) {
    replayed = replay_step(std::move(*graph));
  } else {
    report.no_graph = graph.error().message;
  }
  const SummaryInput input{trace, step, replayed ? &*replayed : nullptr, !graphs.embedded()};
  summarise_lanes(input, report);
  if (replayed) summarise_work(input, report);
  summarise_memory(input, report);
  if (report.lanes.empty() && report.gpu_events == 0) {
    return declined(trace, "the step holds no operations, runtime calls or GPU work: there is nothing to summarise");
  }
  if (replayed) {
    FORETRACE_TRY(const host::Measured measured, host::measured_step(trace, replayed->graph, replayed->replayed(),
                                                                     {options.measured_ms, options.host}));
    report.simulated = summarise_simulation(*replayed, measured.step, measured.prior);
    if (measured.recorded) report.simulated->unprofiled.origin = "recorder";
    report.simulated->measured_refused = measured.refused;
    report.unprofiled_samples_per_s = per_second(report.simulated->unprofiled.step);
  }
  return report;
}

}  // namespace foretrace::analysis
