#include <fmt/format.h>

#include "base/readable.hpp"
#include "cli/inputs.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "report/exporter.hpp"
#include "report/json_writer.hpp"
#include "report/text_table.hpp"

namespace foretrace::cli {
namespace {

// Several traces that name their ranks are one job and go into one file; otherwise one trace does.
Result<report::Exported> exported(const Request& request, const report::ExportOptions& options) {
  FORETRACE_TRY(const TracesAndChanges given, split_arguments(request.values.argument("TRACE")));
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(given.traces, request.load));
  const std::optional<std::int64_t> step = request.values.integer("step");
  if (files.size() > 1 && !request.values.integer("rank")) {
    FORETRACE_TRY(const ranks::Job job, ranks::load_job(files, request.load));
    if (job.ranks_named && job.ranks.size() > 1) {
      for (const std::string& note : job.notes) request.note(note);
      if (!given.whatifs.empty()) {
        FORETRACE_TRY(const overview::ChangedJob changed, overview::changed_job(job, step, given.whatifs));
        return report::export_changed_job(changed, options);
      }
      FORETRACE_TRY(const std::shared_ptr<const analysis::RanksStep> chosen,
                    analysis::open_ranks_step(job, {.step = step, .threads = request.load.threads}));
      return report::export_ranks(job, *chosen, options);
    }
  }
  FORETRACE_TRY(const trace::Trace trace, load_one(given.traces, request));
  FORETRACE_TRY(const overview::ExportableStep chosen,
                overview::exportable_step(trace, trace::find_steps(trace), step, given.whatifs));
  return report::export_step(trace, chosen, options);
}

Result<Answer> run_export(const Request& request) {
  const std::optional<std::string> path = request.values.text("output");
  const bool to_file = path && *path != "-";
  if (request.json && !to_file) {
    return fail(ErrorCode::kUsage, "export --json describes the file it writes, so it needs -o FILE",
                "without --json the timeline itself goes to standard output");
  }
  report::ExportOptions options;
  options.format = request.values.text("format").value_or(options.format);
  options.gzip = to_file && path->ends_with(".gz");
  options.pack_table = request.extensions.pack_table;
  FORETRACE_TRY(report::Exported file, exported(request, options));
  if (!to_file) return Answer{std::move(file.bytes)};

  FORETRACE_TRY_VOID(write_output(path, nullptr, file.bytes));
  Answer answer;
  answer.wrote_output = true;
  if (request.json) {
    answer.body = report::json_text([&](report::JsonWriter& json) {
      json.begin_object().member("schema", 1).member("verb", "export").member("file", *path);
      json.member("format", options.format).member("bytes", file.bytes.size()).member("step", file.step);
      json.member("tasks", file.tasks).member("dependencies", file.dependencies);
      json.member("critical_tasks", file.critical_tasks).member_ms("traced_ms", file.traced);
      json.member_ms("replayed_ms", file.replayed).end_object();
    });
    return answer;
  }
  answer.body = report::text_line(
      fmt::format("{}: {}, {}, {} of them on the critical path; {}", printable(*path), printable(file.step),
                  plural(file.tasks, "task"), format_count(file.critical_tasks), format_bytes(file.bytes.size())),
      request.style);
  answer.body += report::text_line(file.hint, request.style);
  return answer;
}

std::vector<std::string> format_names() {
  std::vector<std::string> names;
  for (const report::Exporter& exporter : report::exporters()) names.emplace_back(exporter.name);
  return names;
}

}  // namespace

Verb export_verb() {
  return {
      .name = "export",
      .about = "write the simulated timeline of a step for another program",
      .details =
          "Writes one step, the median one unless --step is given, as measured and as simulated: every task on its "
          "lane, "
          "arrows from launches to their work, and the critical path on a track of its own. The file also holds the "
          "graph: `foretrace replay FILE` reads it back and gives the same times. It is compressed when FILE ends with "
          ".gz. The traces of several ranks go into one file, on one clock, with the transfers between them. What-ifs "
          "after the trace are applied together before the step is written.",
      .arguments = {{"TRACE",
                     "a trace file, a folder with one file per rank, or - for standard input; then what-ifs",
                     1,
                     Argument::kAny,
                     {},
                     whatif_names()}},
      .options = {option(ValueType::kText, "format", "FORMAT", "perfetto", "what to write").one_of(format_names()),
                  output_option("standard output", "the file to write, compressed when its name ends with .gz")},
      .examples = {{"foretrace export trace.json.gz -o timeline.json.gz", "then open it in ui.perfetto.dev"},
                   {"foretrace export trace.json.gz amp fused-optimizer -o predicted.json.gz",
                    "with two changes applied"},
                   {"foretrace export trace.json.gz --step 12 -o step12.json.gz", "another step"},
                   {"foretrace export traces/ -o job.json.gz", "all ranks of a job"},
                   {"foretrace export traces/ --rank 3 -o rank3.json", "one rank of it, not compressed"}},
      .shares = kPlugins | kStep | kReading,
      .run = run_export};
}

}  // namespace foretrace::cli
