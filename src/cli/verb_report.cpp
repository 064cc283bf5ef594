#include <fmt/format.h>

#include "cli/inputs.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/whatif/whatif.hpp"
#include "report/text_table.hpp"

namespace foretrace::cli {
namespace {

// The command as the page shows it.
std::string command_line(const Values& values, const std::string& output) {
  std::string out = "foretrace report";
  for (const std::string& one : values.argument("TRACE")) out += " " + one;
  for (const std::string& one : values.all("before")) out += " --before " + one;
  for (const char* name : {"fabric", "prices", "step", "rank", "measured-ms", "host"}) {
    if (const std::optional<std::string> given = values.text(name)) out += fmt::format(" --{} {}", name, *given);
  }
  return out + " -o " + output;
}

Result<Answer> run_report(const Request& request) {
  const Values& values = request.values;
  FORETRACE_TRY(TracesAndChanges given, split_arguments(values.argument("TRACE")));
  if (given.traces.empty()) {
    return fail(ErrorCode::kUsage, "which trace?", "foretrace report trace.json.gz -o report.html");
  }
  overview::OverviewOptions options;
  options.whatifs = std::move(given.whatifs);
  options.step = values.integer("step");
  options.threads = request.load.threads;
  options.fabric = values.text("fabric").value_or("");
  if (!options.fabric.empty()) {
    FORETRACE_TRY_VOID(hardware::fabric_from(options.fabric));
  }
  FORETRACE_TRY(options.measurements, user_measurements(values));
  FORETRACE_TRY(options.price_list, price_list(values));
  const std::string path = values.text("output").value_or("report.html");
  report::PageOptions shown;
  shown.command = command_line(values, path);
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(given.traces, request.load));
  std::optional<ranks::Job> job;
  if (files.size() > 1) {
    if (Result<ranks::Job> loaded = ranks::load_job(files, request.load)) {
      job = std::move(*loaded);
      options.job = &*job;
    } else {
      request.note("the ranks are not shown: " + loaded.error().message);
    }
  }
  // The rank that is shown in detail: of a job the first, unless --rank picks another.
  const bool first = job && !values.integer("rank");
  std::optional<trace::Trace> picked;
  if (!first) {
    FORETRACE_TRY(picked, load_one(given.traces, request));
  }
  const trace::Trace& trace = first ? job->ranks.front().trace : *picked;
  if (!values.all("before").empty()) {
    FORETRACE_TRY(const std::vector<trace::Trace> old, load_recordings(values.all("before"), request, "--before"));
    compare::Options how;
    how.step = options.step;
    how.host = options.measurements.host;
    FORETRACE_TRY(const compare::Comparison difference, compare::compare(pointers(old), {&trace}, how));
    shown.compare_json = report::to_json(difference);
  }
  FORETRACE_TRY(const overview::Overview all, overview::make_overview(trace, options));
  if (!all.no_job.empty()) request.note("the ranks are not shown: " + all.no_job);
  FORETRACE_TRY(const report::Page page, report::make_page(all, shown));
  if (path == "-") return Answer{page.html};
  FORETRACE_TRY_VOID(write_output(path, nullptr, page.html));
  if (request.json) {
    return Answer{fmt::format("{{\n  \"schema\": 1,\n  \"verb\": \"report\",\n  \"tasks\": {},\n  \"bytes\": {}\n}}\n",
                              page.tasks, page.html.size()),
                  kDone, true};
  }
  const std::string wrote = fmt::format("wrote {}: {} tasks, {:.1f} MB; open it in a browser", path, page.tasks,
                                        static_cast<double>(page.html.size()) / 1e6);
  return Answer{report::text_line(page.answer, request.style) + report::text_line(wrote, request.style), kDone, true};
}

}  // namespace

Verb report_verb() {
  using enum ValueType;
  return {
      .name = "report",
      .about = "everything about a step as one HTML page",
      .details =
          "One file that needs nothing else and opens from disk: the answer, what each change gains, where the time "
          "goes, the measured timeline above the predicted one, memory, roofline, other GPUs, more workers, and for "
          "several ranks who waits for whom. Changes named after the traces are predicted together and shown as the "
          "second timeline; without any, the best combination found is shown.",
      .arguments = {{"TRACE",
                     "traces, or a folder with one file per rank; then changes",
                     1,
                     Argument::kAny,
                     {},
                     whatif_names()}},
      .options = {option(kText, "fabric", "NAME", "the one the GPU is usually sold with",
                         "the network of the scaling curve"),
                  option(kFile, "prices", "FILE", "those of the device files",
                         "a price list for other GPUs: device,usd_per_hour,provider,date"),
                  option(kFile, "before", "FILE", "",
                         "an older recording, or a folder of them: the page also says what changed since")
                      .repeated(),
                  output_option("report.html", "the page to write; - for standard output")},
      .examples = {{"foretrace report trace.json.gz -o report.html", "the step and what would make it faster"},
                   {"foretrace report trace.json.gz amp fused-optimizer -o report.html", "these changes"},
                   {"foretrace report traces/ -o report.html", "all ranks of a job"}},
      .shares = kPrediction,
      .run = run_report};
}

}  // namespace foretrace::cli
