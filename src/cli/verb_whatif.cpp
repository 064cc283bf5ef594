#include "cli/output.hpp"
#include "cli/residuals.hpp"
#include "cli/script_output.hpp"
#include "cli/told.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/search/optimize.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_whatif(const Request& request) {
  FORETRACE_TRY(const host::UserMeasurements known, told(request.values));
  std::vector<whatif::Use> uses;
  for (const std::string& text : request.values.argument("WHATIF")) {
    FORETRACE_TRY(whatif::Use use, whatif::parse_use(text));
    uses.push_back(std::move(use));
  }
  std::optional<search::Strategy> strategy;
  if (const std::optional<std::string> file = request.values.text("strategy")) {
    FORETRACE_TRY(strategy, search::load_strategy(*file));
  } else if (request.values.text("code-out")) {
    return fail(ErrorCode::kUsage, "--code-out writes the code of a strategy: which one?", "--strategy FILE");
  } else if (uses.empty()) {
    return fail(ErrorCode::kUsage, "which change?", "name what-ifs (`foretrace list whatifs`) or give --strategy FILE");
  }
  FORETRACE_TRY(const trace::Trace trace, load_one(request.values.argument("TRACE"), request));
  FORETRACE_TRY(analysis::Baseline baseline, analysis::make_baseline(trace, request.values.integer("step"), known));
  FORETRACE_TRY(baseline.model.residuals, read_residuals(request));
  FORETRACE_TRY_VOID(can_write_code(request, baseline));
  std::optional<search::Optimized> plan;
  std::string body;
  report::WhatIfReport report{baseline.figures, {}, request.values.number("batch")};
  if (strategy) {
    plan = search::explain_strategy(baseline, *strategy);
    const bool shown = plan->prediction.declined.empty();
    const report::OptimizeReport alone{baseline.figures, *plan};
    if (shown) body = to_text(alone, request.style);
    if (const auto path = request.values.text("code-out"); path && shown) {
      FORETRACE_TRY_VOID(write_output(path, nullptr, report::pytorch_script(alone)));
    }
    if (request.json || !shown) report.predictions.push_back(plan->prediction);
  }
  if (request.values.flag("stack") && !uses.empty()) {
    report.predictions.push_back(analysis::predict(baseline, uses));
  } else {
    for (const whatif::Use& use : uses) report.predictions.push_back(analysis::predict(baseline, {use}));
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

const Verb& whatif_verb() {
  static const Verb kVerb{
      .name = "whatif",
      .about = "predict each change alone, or all together",
      .details =
          "A change is written name or name:key=value,key=value; values with , : or = are quoted, lists use |. "
          "`foretrace list whatifs` shows them all. Every prediction carries the 10th and 90th percentile, where its "
          "costs come from, and what is not modelled.",
      .arguments = {{"TRACE", "a trace file, or - for standard input", 1, 1},
                    {"WHATIF", "changes to try", 0, Argument::kAny, {}, whatif_names()}},
      .options = {{"stack", 0, ValueType::kFlag, "", "", "all changes together, in this order"},
                  {"strategy", 0, ValueType::kFile, "FILE", "", "all changes of a strategy file together"},
                  {"code-out", 0, ValueType::kFile, "FILE", "", "write a PyTorch script that switches the strategy on"},
                  {"batch",
                   0,
                   ValueType::kNumber,
                   "N",
                   "",
                   "samples in the traced step, to print samples per second",
                   {},
                   0.0},
                  {"residuals", 0, ValueType::kFile, "FILE", "those of the project's own measurements",
                   "how far predictions were off: decides the bands"}},
      .examples = {{"foretrace whatif trace.json.gz fused-optimizer", "one change"},
                   {"foretrace whatif trace.json.gz batch:x=2 checkpoint", "two changes, each alone"},
                   {"foretrace whatif trace.json.gz fused-optimizer cuda-graph --stack -m 71.6",
                    "both, with the real step's time"},
                   {"foretrace whatif trace.json.gz --strategy best.json", "what `foretrace optimize` wrote"},
                   {"foretrace whatif trace.json.gz mine:x=2 --plugin mine.py", "one of your own, in Python"}},
      .reads_traces = true,
      .picks_step = true,
      .calibrates = true,
      .takes_plugins = true,
      .run = run_whatif};
  return kVerb;
}

}  // namespace foretrace::cli
