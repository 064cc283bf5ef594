#include <fmt/format.h>

#include <filesystem>

#include "cli/output.hpp"
#include "cli/price_list.hpp"
#include "cli/told.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/export.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::cli {
namespace {

// Traces come first; what is no file is a change.
void split(const std::vector<std::string>& given, std::vector<std::string>& traces, std::vector<std::string>& whatifs) {
  for (const std::string& one : given) {
    const bool file = one == "-" || std::filesystem::exists(one) || (traces.empty() && !whatif::parse_use(one));
    (file ? traces : whatifs).push_back(one);
  }
}

Result<Answer> run_report(const Request& request) {
  std::vector<std::string> traces;
  report::PageOptions options;
  split(request.values.argument("TRACE"), traces, options.whatifs);
  if (traces.empty()) return fail(ErrorCode::kUsage, "which trace?", "foretrace report trace.json.gz -o report.html");
  for (const std::string& text : options.whatifs) {
    FORETRACE_TRY_VOID(whatif::parse_use(text));
  }
  options.step = request.values.integer("step");
  options.threads = request.load.threads;
  options.fabric = request.values.text("fabric").value_or("");
  if (!options.fabric.empty()) {
    FORETRACE_TRY_VOID(hardware::fabric_from(options.fabric));  // a wrong name is said before a long import
  }
  FORETRACE_TRY(options.told, told(request.values));
  if (const auto file = request.values.text("prices")) {
    FORETRACE_TRY(options.price_list, read_price_list(*file));
  }
  options.command = "foretrace report";
  for (const std::string& one : request.values.argument("TRACE")) options.command += " " + one;
  const std::vector<std::string> before_files = request.values.all("before");
  for (const std::string& one : before_files) options.command += " --before " + one;
  for (const char* name : {"fabric", "prices", "step", "rank", "measured-ms", "host"}) {
    if (const std::optional<std::string> said = request.values.text(name))
      options.command += fmt::format(" --{} {}", name, *said);
  }
  const std::string path = request.values.text("output").value_or("report.html");
  options.command += " -o " + path;
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(traces, request.load));
  FORETRACE_TRY(const trace::Trace trace, load_one(traces, request));
  if (files.size() > 1) {
    Result<ranks::Job> job = ranks::load_job(files, request.load);
    const Result<analysis::RanksReport> all =
        job ? analysis::analyse_ranks(*job, {.step = options.step, .threads = options.threads, .progress = {}})
            : Result<analysis::RanksReport>(tl::unexpected(job.error()));
    if (all) {
      options.ranks_json = report::to_json(*all);
    } else {
      request.note("the ranks are not shown: " + all.error().message);
    }
  }
  if (!before_files.empty()) {
    FORETRACE_TRY(const std::vector<trace::Trace> old,
                  load_recordings(before_files, request, "--before", request.values.integer("rank")));
    compare::Options how;
    how.step = options.step;
    how.host = options.told.host;
    FORETRACE_TRY(const compare::Comparison difference, compare::compare(pointers(old), {&trace}, how));
    options.compare_json = report::to_json(difference);
  }
  FORETRACE_TRY(const report::Page page, report::make_page(trace, options));
  if (path == "-") return Answer{page.html};
  FORETRACE_TRY_VOID(write_output(path, nullptr, page.html));
  if (request.json) {
    return Answer{fmt::format("{{\n  \"schema\": 1,\n  \"verb\": \"report\",\n  \"tasks\": {},\n  \"bytes\": {}\n}}\n",
                              page.tasks, page.html.size()),
                  kDone, true};
  }
  return Answer{fmt::format("{}\nwrote {}: {} tasks, {:.1f} MB; open it in a browser\n", page.answer, path, page.tasks,
                            static_cast<double>(page.html.size()) / 1e6),
                kDone, true};
}

}  // namespace

const Verb& report_verb() {
  static const Verb kVerb{
      .name = "report",
      .about = "everything about a step as one HTML page",
      .details =
          "One file that needs nothing else and opens from disk: the answer, what each change gives, where the time "
          "goes, "
          "the measured timeline above the predicted one, memory, roofline, other GPUs, more workers, and for several "
          "ranks who waits for whom. Changes named behind the traces are predicted together and shown as the second "
          "timeline; without any, the best combination found is.",
      .arguments = {{"TRACE",
                     "traces, or a folder with one file per rank; then changes",
                     1,
                     Argument::kAny,
                     {},
                     whatif_names()}},
      .options = {{"fabric", 0, ValueType::kText, "NAME", "what the GPU is usually sold with",
                   "the network of the scaling curve"},
                  {"prices", 0, ValueType::kFile, "FILE", "those of the device files",
                   "a price list for other GPUs: device,usd_per_hour,provider,date"},
                  {.name = "before",
                   .type = ValueType::kFile,
                   .value_name = "FILE",
                   .default_text = "",
                   .about = "an older recording, or a folder of them: what changed since is said, too",
                   .repeats = true}},
      .examples = {{"foretrace report trace.json.gz -o report.html", "the step and what would make it faster"},
                   {"foretrace report trace.json.gz amp fused-optimizer -o report.html", "these changes"},
                   {"foretrace report traces/ -o report.html", "all ranks of a job"}},
      .reads_traces = true,
      .picks_step = true,
      .calibrates = true,
      .takes_plugins = true,
      .run = run_report};
  return kVerb;
}

}  // namespace foretrace::cli
