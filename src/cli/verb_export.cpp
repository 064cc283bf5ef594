#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/readable.hpp"
#include "cli/output.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "report/exporter.hpp"
#include "report/json_writer.hpp"

namespace foretrace::cli {
namespace {

// What is no file and names a what-if is one.
Result<std::vector<std::string>> take_whatifs(std::vector<std::string>& arguments) {
  std::vector<std::string> whatifs;
  std::vector<std::string> rest;
  for (std::string& text : arguments) {
    const std::string name = text.substr(0, text.find(':'));
    std::error_code ignored;
    const bool file = text == "-" || std::filesystem::exists(text, ignored);
    // Behind a trace, a word that is neither and has nothing of a path was meant as a what-if.
    const bool word = !rest.empty() && text.find_first_of("./") == std::string::npos;
    if (file || (!whatif::find_whatif(name) && !word)) {
      rest.push_back(std::move(text));
      continue;
    }
    if (const Result<whatif::Use> use = whatif::parse_use(text); !use) return tl::unexpected(use.error());
    whatifs.push_back(std::move(text));
  }
  arguments = std::move(rest);
  return whatifs;
}

// Several traces that say their ranks are one job and go into one file; otherwise one trace does.
Result<report::Exported> written(const Request& request, report::ExportOptions options) {
  std::vector<std::string> traces = request.values.argument("TRACE");
  FORETRACE_TRY(options.whatifs, take_whatifs(traces));
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(traces, request.load));
  if (files.size() > 1 && !request.values.integer("rank") && options.whatifs.empty()) {
    FORETRACE_TRY(const ranks::Job job, ranks::load_job(files, request.load));
    if (job.ranks_named && job.ranks.size() > 1) {
      for (const std::string& note : job.notes) request.note(note);
      return report::export_ranks(job, options, request.load.threads);
    }
  }
  FORETRACE_TRY(const trace::Trace trace, load_one(traces, request));
  return report::export_step(trace, trace::find_steps(trace), options);
}

Result<Answer> run_export(const Request& request) {
  const std::optional<std::string> path = request.values.text("output");
  const bool to_file = path && *path != "-";
  if (request.json && !to_file) {
    return fail(ErrorCode::kUsage, "export --json says what was written, and needs -o FILE to write to",
                "without --json the timeline itself goes to standard output");
  }
  report::ExportOptions options;
  options.step = request.values.integer("step");
  options.pack_table = request.extensions.pack_table;
  options.format = request.values.text("format").value_or(options.format);
  options.gzip = to_file && path->ends_with(".gz");
  FORETRACE_TRY(report::Exported file, written(request, options));
  if (!to_file) return Answer{std::move(file.bytes)};

  FORETRACE_TRY_VOID(write_output(path, nullptr, file.bytes));
  Answer answer;
  answer.wrote_output = true;
  if (request.json) {
    report::JsonWriter json(answer.body);
    json.begin_object().member("schema", 1).member("verb", "export").member("file", *path);
    json.member("format", options.format).member("bytes", file.bytes.size()).member("step", file.step);
    json.member("tasks", file.tasks).member("dependencies", file.dependencies);
    json.member("critical_tasks", file.critical_tasks).member_ms("traced_ms", file.traced);
    json.member_ms("replayed_ms", file.replayed).end_object();
    answer.body += "\n";
    return answer;
  }
  answer.body = fmt::format("{}: {}, {}, {} of them on the critical path; {}\n{}\n", printable(*path),
                            printable(file.step), plural(file.tasks, "task"), format_count(file.critical_tasks),
                            format_bytes(file.bytes.size()), file.hint);
  return answer;
}

}  // namespace

const Verb& export_verb() {
  static const Verb kVerb = [] {
    Verb verb{
        .name = "export",
        .about = "write the simulated timeline of a step for another program",
        .details =
            "Writes one step, the median one unless --step says otherwise, as it was measured and as it is simulated: "
            "every task on its lane, arrows from launches to their work, the critical path marked and on a track of "
            "its own. The file also holds the graph: `foretrace replay FILE` reads it back and gives the same times. "
            "Compressed when FILE ends with .gz. The traces of several ranks go into one file, on one clock, with the "
            "transfers between them. With what-ifs behind the trace the step is written as all of them together are "
            "predicted to make it.",
        .arguments = {{"TRACE",
                       "a trace file, a folder with one file per rank, or - for standard input; then what-ifs",
                       1,
                       Argument::kAny,
                       {},
                       whatif_names()}},
        .options = {{"format", 'f', ValueType::kText, "FORMAT", "perfetto", "what to write"}},
        .examples = {{"foretrace export trace.json.gz -o timeline.json.gz", "then open it in ui.perfetto.dev"},
                     {"foretrace export trace.json.gz amp fused-optimizer -o predicted.json.gz", "as it would be"},
                     {"foretrace export trace.json.gz --step 12 -o step12.json.gz", "another step"},
                     {"foretrace export traces/ -o job.json.gz", "all ranks of a job"},
                     {"foretrace export traces/ --rank 3 -o rank3.json", "one rank of it, not compressed"}},
        .reads_traces = true,
        .picks_step = true,
        .takes_plugins = true,
        .run = run_export};
    for (const report::Exporter& exporter : report::exporters()) {
      verb.options[0].choices.emplace_back(exporter.name);
    }
    return verb;
  }();
  return kVerb;
}

}  // namespace foretrace::cli
