#include <fmt/format.h>

#include "cli/errors.hpp"
#include "cli/inputs.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/replay.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_parts.hpp"

namespace foretrace::cli {
namespace {

using Outcome = Result<analysis::TraceReplay>;

Outcome replay_trace(const Result<trace::Trace>& trace, const Request& request, const host::UserMeasurements& known) {
  if (!trace) return tl::unexpected(trace.error());
  return analysis::replay(*trace, trace::find_steps(*trace),
                          {request.values.integer("step"), known, request.load.progress});
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

// The members of the first answer, then all of them as a list.
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
  FORETRACE_TRY(const host::UserMeasurements known, user_measurements(request.values));
  std::vector<Outcome> outcomes;
  if (request.values.integer("rank")) {
    outcomes.push_back(replay_trace(load_one(request.values.argument("TRACE"), request), request, known));
  } else {
    FORETRACE_TRY(const std::vector<std::string> files, locate_traces(request.values.argument("TRACE"), request.load));
    // One trace at a time: a folder may hold more than fits into memory.
    for (const std::string& file : files)
      outcomes.push_back(replay_trace(trace::load(file, request.load), request, known));
  }
  if (outcomes.size() == 1) {
    if (!outcomes[0]) return forward(outcomes[0]);
    return Answer{request.json ? report::to_json(*outcomes[0]) : report::to_text(*outcomes[0], request.style)};
  }
  Answer answer{request.json ? json_of(outcomes) : "", exit_code_of(outcomes)};
  if (request.json) return answer;
  for (const Outcome& outcome : outcomes) {
    if (!answer.body.empty()) answer.body += fmt::format("\n{}\n", std::string(request.style.width, '-'));
    answer.body +=
        outcome ? report::to_text(*outcome, request.style) : fmt::format("error: {}\n", error_text(outcome.error()));
  }
  return answer;
}

}  // namespace

Verb replay_verb() {
  using enum ValueType;
  return {
      .name = "replay",
      .about = "simulate the steps unchanged and compare with the trace",
      .details =
          "Builds the graph of every step, simulates it, and shows how far the simulated step and the simulated kernel "
          "starts are from the traced ones. The graph keeps the device's gaps and latencies as measured, so two "
          "stricter figures show how much it explains: the error without the lags that no rule explains (strict), "
          "and the error of one step's costs in another step's graph (crossed). Then the step without the profiler, "
          "with its 10th and 90th percentile, and its bottleneck. Work that outlives its step is simulated in "
          "several copies until the period repeats.",
      .arguments = {{"TRACE", "trace files, folders with one file per rank, or - for standard input", 1,
                     Argument::kAny}},
      .options = {option(kInteger, "step", "N", "all steps", "only the step named ProfilerStep#N"),
                  option(kInteger, "rank", "R", "all", "only the trace of this rank").at_least(0)},
      .examples = {{"foretrace replay trace.json.gz", "all steps of a trace"},
                   {"foretrace replay trace.json.gz --measured-ms 71.3", "with the measured time of a step"},
                   {"foretrace replay traces/", "all ranks of a job, one after another"},
                   {"foretrace replay trace.json.gz --json | jq '.steps[].error_pct'", "for scripts"}},
      .shares = kCalibration | kReading,
      .run = run_replay};
}

}  // namespace foretrace::cli
