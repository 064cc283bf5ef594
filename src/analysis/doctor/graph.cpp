// What the graph of the median step says about a trace: whether it can be built, whether it replays, what was left out.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "analysis/doctor/checks.hpp"
#include "analysis/steadiness.hpp"
#include "base/readable.hpp"
#include "base/statistics.hpp"
#include "foretrace/analysis/baseline.hpp"
#include "foretrace/host/measured_step.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/work/work.hpp"
#include "graph/gpu_work.hpp"
#include "trace/machine.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::analysis {
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
  // Where the GPU runs behind the CPU the range is not what a replay should match.
  if (f.replay->period && std::abs(percent_off(f.replay->replayed, *f.replay->period)) <= 2) return {};
  if (f.replay->outlasts) return {};
  return Finding{
      "replay_off", Weight::kCosts,
      fmt::format("{} replays in {} ms instead of {}, {:+.1f}%", f.replay->step, format_ms(f.replay->replayed),
                  format_ms(f.replay->traced), f.replay->error_pct),
      "Every prediction starts from a step that is off by that much. Predictions are about the steady state, and steps "
      "in which the GPU's queue still fills up are not in it.",
      "look at the other steps with `foretrace replay` and choose one with --step N; skip ramp-up: "
      "schedule(skip_first=10, wait=1, warmup=1, active=3)"};
}

Maybe gpu_outlasts_range(const Facts& f) {
  if (!f.replay || !f.replay->outlasts) return {};
  return Finding{"gpu_outlasts_range", Weight::kNote,
                 fmt::format("the work that {} launches in {} ms takes {} ms until the GPU is done", f.replay->step,
                             format_ms(f.replay->traced), format_ms(f.replay->replayed)),
                 "Launches return before the work is done, so the range of the step is shorter than the step. Steps in "
                 "a row cannot "
                 "follow faster than the GPU works: predictions start from that time.",
                 "record several steps in a row, or end the step with torch.cuda.synchronize()"};
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
                 "They stay at their measured time in the step, whatever changes around them.",
                 "",
                 f.replay->notes.border_tasks};
}

Maybe dropped_shares(const Facts& f) {
  if (!f.replay || f.replay->notes.dropped_soft == 0) return {};
  return Finding{"dropped_shares",
                 Weight::kCosts,
                 fmt::format("{} about which task made room on the GPU contradict the program's order",
                             plural(f.replay->notes.dropped_soft, "inference")),
                 "They are all left out: streams that delayed each other replay too fast.",
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

Maybe without_model(const Facts& f) {
  if (f.without_model.empty() || f.gpu_time <= 0) return {};
  Ns time = 0;
  for (const auto& [name, ns] : f.without_model) time += ns;
  const double part = 100.0 * static_cast<double>(time) / static_cast<double>(f.gpu_time);
  std::string names;
  constexpr std::size_t kShown = 5;
  for (std::size_t i = 0; i < std::min(kShown, f.without_model.size()); ++i) {
    names +=
        fmt::format("{}{} ({} ms)", i == 0 ? "" : ", ", shorten_middle(short_kernel_name(f.without_model[i].first), 60),
                    format_ms(f.without_model[i].second));
  }
  if (f.without_model.size() > kShown) names += fmt::format(" and {} more", f.without_model.size() - kShown);
  return Finding{"kernels_without_model",
                 part > 2 ? Weight::kCosts : Weight::kNote,
                 fmt::format("{:.1f} % of the GPU's time is in kernels of no known family: {}", part, names),
                 "What-ifs leave them as measured; on another GPU they follow its bandwidth, with a wide band.",
                 "",
                 f.without_model.size()};
}

Maybe step_without_gpu(const Facts& f) {
  if (!f.replay || f.step_on_gpu || f.gpu_work() == 0) return {};
  return Finding{"step_without_gpu", Weight::kBlocks, fmt::format("{}: {}", f.replay->step, graph::kNoGpuWork),
                 "Predictions start from this step by default, and nothing can be predicted from it.",
                 f.only_step() ? "name the range that encloses a step with --steps-by NAME, or record again"
                               : "choose a step that works on the GPU: --step N"};
}

Maybe measured_refused(const Facts& f) {
  if (f.measured_refused.empty()) return {};
  return Finding{"measured_refused", Weight::kCosts, f.measured_refused,
                 "The step without the profiler is estimated from the trace alone instead.",
                 "give the time of a step with --measured-ms X, or record again"};
}

// What no other check has explained already.
Maybe no_predictions(const Facts& f) {
  if (f.no_predictions.empty() || !f.step_on_gpu) return {};
  const bool other = !trace::other_accelerator(*f.trace).empty();
  return Finding{"no_predictions", Weight::kBlocks, f.no_predictions,
                 "What-ifs are declined for this step; its breakdown and timeline can be shown.",
                 other           ? ""
                 : f.only_step() ? "record a step of a rank that computes on the GPU"
                                 : "choose another step: --step N"};
}

constexpr Check kChecks[] = {from_export,        no_graph,         step_without_gpu, no_predictions, replay_off,
                             gpu_outlasts_range, measured_refused, unexplained_lags, refuted_waits,  border_work,
                             dropped_shares,     foreign_events,   without_model};

// Kernels whose family neither their operation nor their name shows.
void list_without_model(Facts& facts, const graph::Graph& graph) {
  if (facts.from_export) return;  // the events behind the tasks are not in this file
  const work::Works works = work::describe(*facts.trace, graph);
  std::map<std::string, Ns> by_name;
  for (std::size_t t = 0; t < graph.size(); ++t) {
    if (!graph::is_gpu(graph.kind[t])) continue;
    facts.gpu_time += graph.cost[t];
    const work::Work* work = works.of(t);
    if (work != nullptr && work->family == work::Family::kOther) {
      by_name[std::string(graph.task_name(t))] += graph.cost[t];
    }
  }
  facts.without_model.assign(by_name.begin(), by_name.end());
  std::stable_sort(facts.without_model.begin(), facts.without_model.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
}

// Whether what-ifs will answer, asked as they ask, and what the step's length follows.
void ask_predictions(Facts& facts, const graph::Graph& graph, const trace::Step& step, DoctorReport::Replay& replay) {
  const trace::Trace& trace = *facts.trace;
  const Result<host::Measured> measured = host::measured_step(trace, graph, replay.replayed, std::nullopt);
  if (measured) facts.measured_refused = measured->refused;
  if (facts.from_export) {
    if (!measured) return;
    const host::Unprofiled real = host::unprofiled(graph, measured->step, measured->prior);
    replay.verdict = step_verdict(trace, graph, host::apply(graph, real.factors, measured->prior));
    return;
  }
  const Result<Baseline> baseline = make_baseline(trace, step, graph, std::nullopt);
  if (!baseline) {
    facts.no_predictions = baseline.error().message;
    return;
  }
  replay.verdict = baseline->figures.verdict;
  if (const Status can = whatif::Predictor::check(baseline->model, true); !can) {
    facts.no_predictions = can.error().message;
  }
}

}  // namespace

void replay_median_step(Facts& facts) {
  facts.from_export = !facts.trace->metadata_value(kGraphKey).empty();
  if (facts.steps->steps.empty() && !facts.from_export) return;
  const Result<StepGraphs> graphs = StepGraphs::open(*facts.trace, *facts.steps);
  if (!graphs) {
    facts.no_replay = graphs.error().message;
    return;
  }
  facts.cold.resize(graphs->steps().steps.size());
  for (std::size_t i = 0; i < facts.cold.size(); ++i) facts.cold[i] = graphs->cold(i);
  const Result<graph::Graph> graph = graphs->graph(graphs->median());
  if (!graph) {
    facts.no_replay = graph.error().message;
    return;
  }
  DoctorReport::Replay replay;
  replay.step = graph->step_name;
  replay.traced = graph->traced;
  replay.replayed = simulate::steady_state(*graph).timeline.step;
  replay.error_pct = percent_off(replay.replayed, replay.traced);
  replay.outlasts = graph->periodic && graph->period <= 0 && replay.replayed > replay.traced;
  replay.cold_refusal = cold_refusal(*graph, replay.replayed);
  examine_waits(*graph, replay);
  if (!facts.from_export) facts.nature = graph::step_nature(*facts.trace, *graph);
  facts.step_on_gpu = graph::has_gpu_work(*graph);
  ask_predictions(facts, *graph, graphs->steps().steps[graphs->median()], replay);
  list_without_model(facts, *graph);
  replay.tasks = graph->size();
  replay.dependencies = graph->dependencies();
  replay.notes = graph->notes;
  facts.replay = std::move(replay);
}

std::vector<Finding> check_graph(const Facts& facts) { return findings_of(kChecks, facts); }

}  // namespace foretrace::analysis
