// What the graph of the median step tells about a trace: whether it can be built, whether it replays, what was left out.

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "foretrace/simulate/simulate.hpp"
#include "report/doctor_checks.hpp"
#include "report/step_graphs.hpp"
#include "report/text.hpp"

namespace foretrace::report {
namespace {

using Maybe = std::optional<Finding>;

Maybe from_export(const Facts& f) {
  if (!f.from_export) return {};
  return Finding{
      "from_export", Weight::kCosts, "`foretrace export` wrote this file; it holds the graph it shows",
      "replay, summary and export use that graph as it is. Shapes, memory and the events behind the tasks stayed "
      "in the trace it was made from; what-ifs need that one.",
      ""};
}

Maybe no_graph(const Facts& f) {
  if (f.no_replay.empty() || (f.gpu_work() == 0 && !f.from_export)) return {};
  return Finding{"no_graph", Weight::kBlocks, f.no_replay, "There is nothing to simulate and nothing to predict from.",
                 "another step may do: --step N"};
}

Maybe replay_off(const Facts& f) {
  if (!f.replay || std::abs(f.replay->error_pct) <= 2) return {};
  return Finding{
      "replay_off", Weight::kCosts,
      fmt::format("{} replays in {} ms instead of {}, {:+.1f}%", f.replay->step, format_ms(f.replay->replayed),
                  format_ms(f.replay->traced), f.replay->error_pct),
      "Every prediction starts from a step that is off by that much. Steps while the GPU's queue still fills "
      "up are not in steady state, which is what a prediction speaks of.",
      "look at the other steps with `foretrace replay` and choose one with --step N; skip ramp-up: "
      "schedule(skip_first=10, wait=1, warmup=1, active=3)"};
}

Maybe unexplained_lags(const Facts& f) {
  if (!f.replay || f.replay->notes.unexplained_lags == 0) return {};
  const graph::Graph::Notes& n = f.replay->notes;
  const double part =
      f.replay->traced > 0 ? static_cast<double>(n.unexplained_time) / static_cast<double>(f.replay->traced) : 0;
  return Finding{"unexplained_lags",
                 part > 0.01 ? Weight::kCosts : Weight::kNote,
                 fmt::format("{} of {} started over 20 us late without a known cause, {} ms in all",
                             plural(n.unexplained_lags, "GPU task"), f.replay->step, format_ms(n.unexplained_time)),
                 "These delays are kept as measured: no what-if shortens them.",
                 "",
                 n.unexplained_lags};
}

Maybe refuted_waits(const Facts& f) {
  if (!f.replay || f.replay->notes.refuted_waits == 0) return {};
  return Finding{"refuted_stream_waits",
                 Weight::kNote,
                 fmt::format("{} inferred from the order of calls and contradicted by the measured times",
                             plural(f.replay->notes.refuted_waits, "stream wait was", "stream waits were")),
                 "They are left out; where one was real, a faster kernel lets the other stream start too early.",
                 "",
                 f.replay->notes.refuted_waits};
}

Maybe border_work(const Facts& f) {
  if (!f.replay || f.replay->notes.border_tasks == 0) return {};
  return Finding{"border_work",
                 Weight::kNote,
                 fmt::format("{} ran in {} without being launched in it",
                             plural(f.replay->notes.border_tasks, "GPU task"), f.replay->step),
                 "They keep their measured place in the step, whatever changes around them.",
                 "",
                 f.replay->notes.border_tasks};
}

Maybe dropped_shares(const Facts& f) {
  if (!f.replay || f.replay->notes.dropped_soft == 0) return {};
  return Finding{"dropped_shares",
                 Weight::kCosts,
                 fmt::format("{} on which task made room on the GPU contradict the order of the program",
                             plural(f.replay->notes.dropped_soft, "inference")),
                 "All of them are left out: streams that held each other up replay too fast.",
                 "",
                 f.replay->notes.dropped_soft};
}

Maybe foreign_events(const Facts& f) {
  if (!f.replay || f.replay->notes.foreign_events == 0) return {};
  return Finding{
      "foreign_processes",
      Weight::kNote,
      fmt::format("{} belong to other processes than the step's", plural(f.replay->notes.foreign_events, "CPU event")),
      "They are left out of the graph, and with them whatever the step waited for in those processes.",
      "",
      f.replay->notes.foreign_events};
}

constexpr Maybe (*kChecks[])(const Facts&) = {from_export,   no_graph,    replay_off,     unexplained_lags,
                                              refuted_waits, border_work, dropped_shares, foreign_events};

}  // namespace

void replay_median_step(Facts& facts) {
  facts.from_export = !facts.trace->metadata_value(kGraphKey).empty();
  if (facts.steps->steps.empty() && !facts.from_export) return;
  const Result<StepGraphs> graphs = StepGraphs::open(*facts.trace, *facts.steps);
  if (!graphs) {
    facts.no_replay = graphs.error().message;
    return;
  }
  const Result<graph::Graph> graph = graphs->graph(graphs->steps().median());
  if (!graph) {
    facts.no_replay = graph.error().message;
    return;
  }
  DoctorReport::Replay replay;
  replay.step = graph->step_name;
  replay.traced = graph->traced;
  replay.replayed = simulate::steady_state(*graph).timeline.step;
  if (replay.traced > 0) {
    replay.error_pct =
        100.0 * static_cast<double>(replay.replayed - replay.traced) / static_cast<double>(replay.traced);
  }
  replay.tasks = graph->size();
  replay.dependencies = graph->dependencies();
  replay.notes = graph->notes;
  facts.replay = std::move(replay);
}

std::vector<Finding> check_graph(const Facts& facts) {
  std::vector<Finding> findings;
  for (const auto check : kChecks) {
    if (Maybe finding = check(facts)) findings.push_back(std::move(*finding));
  }
  return findings;
}

}  // namespace foretrace::report
