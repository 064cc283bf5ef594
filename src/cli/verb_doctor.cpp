#include <fmt/format.h>

#include <algorithm>

#include "cli/errors.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/doctor.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_parts.hpp"
#include "report/json_writer.hpp"

namespace foretrace::cli {
namespace {

struct Section {
  std::string file;
  std::optional<Error> error;
};

Result<Answer> run_doctor(const Request& request) {
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(request.values.argument("TRACE"), request.load));
  std::vector<Section> sections;
  std::vector<analysis::DoctorReport> reports;
  for (const std::string& file : files) {
    // One trace at a time: a folder may hold more than fits the memory.
    Result<trace::Trace> trace = trace::load(file, request.load);
    if (!trace) {
      if (files.size() == 1) return forward(trace);
      sections.push_back({file, trace.error()});
      continue;
    }
    reports.push_back(analysis::examine(*trace, trace::find_steps(*trace)));
    sections.push_back({file, std::nullopt});
  }
  const analysis::TraceSet set = analysis::examine_set(reports);
  Answer answer;
  // As every other verb would answer: declined, when nothing can be predicted from any of them.
  const bool useful = std::any_of(reports.begin(), reports.end(), [](const auto& r) { return r.predicts(); });
  if (!useful) answer.exit_code = kDeclined;
  for (const Section& section : sections) {
    if (section.error) answer.exit_code = exit_code(*section.error);
  }
  if (request.json) {
    report::JsonWriter json(answer.body, 3);
    json.begin_object().member("schema", 1).member("verb", "doctor").key("traces").begin_array();
    std::size_t next = 0;
    for (const Section& section : sections) {
      section.error ? write_error(json, *section.error) : report::write_json(json, reports[next++]);
    }
    json.end_array().key("set");
    report::write_json(json, set);
    json.end_object();
    answer.body += "\n";
    return answer;
  }
  std::size_t next = 0;
  for (const Section& section : sections) {
    if (!answer.body.empty()) answer.body += fmt::format("\n{}\n", std::string(request.style.width, '-'));
    answer.body += section.error ? fmt::format("error: {}\n", error_text(*section.error))
                                 : report::to_text(reports[next++], request.style);
  }
  if (files.size() > 1) answer.body += fmt::format("\nTogether: {}\n", set.sentence());
  return answer;
}

}  // namespace

const Verb& doctor_verb() {
  static const Verb verb{
      .name = "doctor",
      .about = "what a trace holds, what it lacks, and what each lack costs",
      .details =
          "Reads each trace and says whether it is good for predictions: steps and how they were found, lanes, "
          "devices, ranks, and for everything missing what it costs and which torch.profiler flag records it. Bad "
          "records are counted by name with an example. Values of unknown metadata are never printed. Exits with 4 "
          "when "
          "nothing can be predicted.",
      .arguments = {{"TRACE", "trace files, folders with one file per rank, or - for standard input", 1,
                     Argument::kAny}},
      .examples = {{"foretrace doctor trace.json.gz", "one trace"},
                   {"foretrace doctor traces/", "all ranks of a job, and whether any is missing"},
                   {"foretrace doctor --partial broken.json", "a file that was cut off"},
                   {"foretrace doctor trace.json.gz --json | jq '.traces[0].findings[].name'", "for scripts"}},
      .reads_traces = true,
      .takes_plugins = true,
      .run = run_doctor};
  return verb;
}

}  // namespace foretrace::cli
