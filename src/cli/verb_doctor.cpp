#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/errors.hpp"
#include "cli/inputs.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/doctor.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_doctor(const Request& request) {
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(request.values.argument("TRACE"), request.load));
  std::vector<std::optional<Error>> errors;  // by file
  std::vector<analysis::DoctorReport> reports;
  for (const std::string& file : files) {
    // One trace at a time: a folder may hold more than fits into memory.
    Result<trace::Trace> trace = trace::load(file, request.load);
    if (!trace && files.size() == 1) return forward(trace);
    if (trace) reports.push_back(analysis::examine(*trace, trace::find_steps(*trace)));
    errors.push_back(trace ? std::nullopt : std::optional(trace.error()));
  }
  const analysis::TraceSet set = analysis::examine_set(reports);
  Answer answer;
  // As every other verb would answer: declined, when nothing can be predicted from any of them.
  // Of one file with several GPUs the others take the first.
  const std::vector<std::string>& asked = request.values.argument("TRACE");
  std::error_code ignored;
  const bool one_file = asked.size() == 1 && !std::filesystem::is_directory(asked.front(), ignored);
  const bool useful = one_file && !reports.empty()
                          ? reports.front().predicts()
                          : std::any_of(reports.begin(), reports.end(), [](const auto& r) { return r.predicts(); });
  if (!useful) answer.exit_code = kDeclined;
  for (const std::optional<Error>& error : errors) {
    if (error) answer.exit_code = exit_code(*error);
  }
  auto next = reports.begin();
  if (request.json) {
    report::JsonWriter json(answer.body, 3);
    json.begin_object().member("schema", 1).member("verb", "doctor").key("traces").begin_array();
    for (const std::optional<Error>& error : errors) {
      error ? write_error(json, *error) : report::write_json(json, *next++);
    }
    json.end_array().key("set");
    report::write_json(json, set);
    json.end_object();
    answer.body += "\n";
    return answer;
  }
  for (const std::optional<Error>& error : errors) {
    if (!answer.body.empty()) answer.body += fmt::format("\n{}\n", std::string(request.style.width, '-'));
    answer.body += error ? fmt::format("error: {}\n", error_text(*error)) : report::to_text(*next++, request.style);
  }
  if (files.size() > 1) answer.body += fmt::format("\nTogether: {}\n", set.sentence());
  return answer;
}

}  // namespace

Verb doctor_verb() {
  return {
      .name = "doctor",
      .about = "what a trace holds, what is missing, and what each gap costs",
      .details =
          "Reads each trace and says whether predictions can be made from it: steps and how they were found, threads "
          "and streams, devices, ranks. For everything that is missing it says what that costs and which "
          "torch.profiler flag records it. Unusable records are counted by name, with an example. Values of unknown "
          "metadata are never printed. Exits with 4 when nothing can be predicted.",
      .arguments = {{"TRACE", "trace files, folders with one file per rank, or - for standard input", 1,
                     Argument::kAny}},
      .examples = {{"foretrace doctor trace.json.gz", "one trace"},
                   {"foretrace doctor traces/", "all ranks of a job, and whether any is missing"},
                   {"foretrace doctor --partial broken.json", "a truncated file"},
                   {"foretrace doctor trace.json.gz --json | jq '.traces[0].findings[].name'", "for scripts"}},
      .shares = kPlugins | kReading,
      .run = run_doctor};
}

}  // namespace foretrace::cli
