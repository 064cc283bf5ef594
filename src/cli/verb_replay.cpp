#include <fmt/format.h>

#include "cli/errors.hpp"
#include "cli/told.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_parts.hpp"

namespace foretrace::cli {
namespace {

using Outcome = Result<analysis::TraceReplay>;

Outcome replay_trace(const trace::Trace& trace, const Request& request, const host::UserMeasurements& known) {
  const analysis::ReplayOptions options{request.values.integer("step"), known.measured_ms, request.load.progress,
                                        known.host};
  return analysis::replay(trace, trace::find_steps(trace), options);
}

Outcome replay_file(const std::string& file, const Request& request, const host::UserMeasurements& known) {
  FORETRACE_TRY(const trace::Trace trace, trace::load(file, request.load));
  return replay_trace(trace, request, known);
}

// A file that cannot be read fails the command; one without a step only when there is no other.
int exit_code_of(const std::vector<Outcome>& outcomes) {
  int code = kDone;
  bool answered = false;
  for (const Outcome& outcome : outcomes) {
    answered |= outcome.has_value();
    if (!outcome && outcome.error().code != ErrorCode::kDeclined) code = exit_code(outcome.error());
  }
  return code != kDone ? code : answered ? kDone : kDeclined;
}

std::string json_of(const std::vector<Outcome>& outcomes) {
  std::string out;
  report::JsonWriter json(out, 3);
  json.begin_object().member("schema", 1).member("verb", "replay");
  for (const Outcome& outcome : outcomes) {
    if (!outcome) continue;
    report::write_members(json, *outcome);
    break;
  }
  json.key("traces").begin_array();
  for (const Outcome& outcome : outcomes) {
    outcome ? report::write_json(json, *outcome) : write_error(json, outcome.error());
  }
  json.end_array().end_object();
  return out + "\n";
}

Result<Answer> run_replay(const Request& request) {
  FORETRACE_TRY(const host::UserMeasurements known, told(request.values));
  std::vector<Outcome> outcomes;
  if (request.values.integer("rank")) {
    FORETRACE_TRY(const trace::Trace trace, load_one(request.values.argument("TRACE"), request));
    outcomes.push_back(replay_trace(trace, request, known));
  } else {
    FORETRACE_TRY(const std::vector<std::string> files, locate_traces(request.values.argument("TRACE"), request.load));
    // One trace at a time: a folder may hold more than fits the memory.
    for (const std::string& file : files) outcomes.push_back(replay_file(file, request, known));
  }
  if (outcomes.size() == 1) {
    if (!outcomes[0]) return forward(outcomes[0]);
    return Answer{request.json ? report::to_json(*outcomes[0]) : report::to_text(*outcomes[0], request.style)};
  }
  Answer answer;
  answer.exit_code = exit_code_of(outcomes);
  if (request.json) {
    answer.body = json_of(outcomes);
    return answer;
  }
  for (const Outcome& outcome : outcomes) {
    if (!answer.body.empty()) answer.body += fmt::format("\n{}\n", std::string(request.style.width, '-'));
    answer.body +=
        outcome ? report::to_text(*outcome, request.style) : fmt::format("error: {}\n", error_text(outcome.error()));
  }
  return answer;
}

}  // namespace

const Verb& replay_verb() {
  static const Verb kVerb{
      .name = "replay",
      .about = "simulate the steps unchanged and compare with the trace",
      .details =
          "Builds the graph of every step, simulates it, and shows how far the simulated step and the simulated starts "
          "of kernels are from the traced ones. The graph keeps the device's gaps and latencies as measured, so two "
          "more figures tell what it is worth: the error without the lags no rule explains (strict), and that of one "
          "step's costs in another step's graph (crossed). Then the step as it runs without the profiler, with low and "
          "high (10th and 90th percentile), and what holds it up. Work that outlives its step is simulated in several "
          "copies until the period repeats.",
      .arguments = {{"TRACE", "trace files, folders with one file per rank, or - for standard input", 1,
                     Argument::kAny}},
      .options = {{"step", 0, ValueType::kInteger, "N", "all steps", "only the step named ProfilerStep#N"},
                  {"rank", 0, ValueType::kInteger, "R", "all", "only the trace of this rank", {}, 0.0}},
      .examples = {{"foretrace replay trace.json.gz", "all steps of a trace"},
                   {"foretrace replay trace.json.gz --measured-ms 71.3", "with the time a step really takes"},
                   {"foretrace replay traces/", "all ranks of a job, one after another"},
                   {"foretrace replay trace.json.gz --json | jq '.steps[].error_pct'", "for scripts"}},
      .reads_traces = true,
      .calibrates = true,
      .run = run_replay};
  return kVerb;
}

}  // namespace foretrace::cli
