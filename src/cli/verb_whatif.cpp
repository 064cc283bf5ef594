#include "cli/inputs.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"
#include "plan/stack.hpp"
#include "report/inference_script.hpp"
#include "whatif/model/fitting.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_whatif(const Request& request) {
  const Values& values = request.values;
  FORETRACE_TRY(const TracesAndChanges given, traces_and_changes(values));
  FORETRACE_TRY(const std::vector<whatif::Use> uses, analysis::parse_uses(given.whatifs));
  std::optional<search::Strategy> strategy;
  if (const std::optional<std::string> file = values.text("strategy")) {
    FORETRACE_TRY(strategy, search::load_strategy(*file));
  } else if (values.text("code-out")) {
    return fail(ErrorCode::kUsage, "--code-out writes the code of a strategy: which one?", "--strategy FILE");
  } else if (uses.empty()) {
    return fail(ErrorCode::kUsage, "which change?", "name what-ifs (`foretrace list whatifs`) or give --strategy FILE");
  }
  FORETRACE_TRY(OpenBaseline open, open_baseline(request, given.traces));
  analysis::Baseline& baseline = open.baseline;
  FORETRACE_TRY(baseline.model.residuals, read_residuals(values));
  FORETRACE_TRY_VOID(can_write_code(values, baseline));
  std::optional<search::Optimized> plan;
  std::string body;
  report::WhatIfReport report{baseline.figures, {}, values.number("batch")};
  if (strategy) {
    plan = search::explain_strategy(baseline, *strategy);
    const bool shown = plan->prediction.declined.empty();
    const report::OptimizeReport alone{baseline.figures, *plan};
    if (shown) body = to_text(alone, request.style);
    if (const auto path = values.text("code-out"); path && shown) {
      FORETRACE_TRY_VOID(write_output(path, nullptr, report::script_for(whatif::nature_of(baseline.model), alone)));
    }
    if (request.json || !shown) report.predictions.push_back(plan->prediction);
  }
  if (!uses.empty() && values.flag("stack")) {
    report.predictions.push_back(plan::predict(baseline, uses, report.batch));
  } else {
    for (const whatif::Use& use : uses) {
      report.predictions.push_back(plan::predict(baseline, {use}, report.batch));
    }
  }
  bool answered = !body.empty();
  for (const whatif::Prediction& p : report.predictions) answered |= p.declined.empty();
  if (request.json) {
    body = to_json(report, plan ? &*plan : nullptr);
  } else if (!report.predictions.empty()) {
    body += (body.empty() ? "" : "\n") + to_text(report, request.style);
  }
  return Answer{std::move(body), answered ? kDone : kDeclined};
}

}  // namespace

Verb whatif_verb() {
  return {
      .name = "whatif",
      .about = "predict each change alone, or all together",
      .details =
          "A change is written name or name:key=value,key=value; values that contain , : or = are quoted, lists use |. "
          "`foretrace list whatifs` shows all changes. Every prediction comes with its 10th and 90th percentile, where "
          "its costs come from, and what is not modelled.",
      .arguments = {{"TRACE", "a trace file, a folder with one file per rank, or - for standard input"},
                    {"WHATIF", "changes to try", 0, Argument::kAny, {}, whatif_names()}},
      .options = {flag("stack", "all changes together, in this order"),
                  option(ValueType::kFile, "strategy", "FILE", "", "all changes of a strategy file together"),
                  code_option(), batch_option(), residuals_option()},
      .examples = {{"foretrace whatif trace.json.gz fused-optimizer", "one change"},
                   {"foretrace whatif trace.json.gz batch:x=2 checkpoint", "two changes, each alone"},
                   {"foretrace whatif trace.json.gz fused-optimizer cuda-graph --stack -m 71.6",
                    "both together, with the measured time of a step"},
                   {"foretrace whatif traces/ bandwidth:x=2", "on all ranks of a job, simulated together"},
                   {"foretrace whatif trace.json.gz --strategy best.json", "what `foretrace optimize` wrote"},
                   {"foretrace whatif trace.json.gz mine:x=2 --plugin mine.py", "your own what-if, in Python"}},
      .shares = kPrediction,
      .run = run_whatif};
}

}  // namespace foretrace::cli
