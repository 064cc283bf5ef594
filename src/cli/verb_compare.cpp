#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/byte_source.hpp"
#include "cli/output.hpp"
#include "cli/residuals.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

// The rows that are in the file, else the built-in ones, and the new ones behind them: a band learns from both.
Status write_residuals(const std::string& path, const compare::Verdict& verdict) {
  std::vector<whatif::Residuals::Row> rows = whatif::Residuals::built_in().rows();
  if (std::filesystem::exists(path)) {
    FORETRACE_TRY(const std::string text, read_file(path, kLargestResiduals));
    FORETRACE_TRY(const whatif::Residuals old, whatif::Residuals::parse(text, path));
    rows = old.rows();
  }
  std::string text = "# family,model,log(measured / predicted): `foretrace compare --residuals-out` adds to it\n";
  rows.insert(rows.end(), verdict.residuals.begin(), verdict.residuals.end());
  for (const whatif::Residuals::Row& row : rows) {
    std::string model = row.model;
    std::replace_if(model.begin(), model.end(), [](char c) { return c == ',' || c == '\n' || c == '"'; }, '_');
    text += fmt::format("{},{},{:.4f}\n", row.family, model, row.residual);
  }
  return write_output(path, nullptr, text);
}

Result<Answer> run_compare(const Request& request) {
  const Values& values = request.values;
  compare::Options options;
  options.step = values.integer("step");
  options.before_ms = values.number("before-ms");
  options.after_ms = values.number("after-ms");
  options.gate_pct = values.number("gate");
  options.model = values.text("model").value_or("");
  if (options.before_ms.has_value() != options.after_ms.has_value()) {
    return fail(ErrorCode::kUsage, "--before-ms and --after-ms go together", "give both, or neither");
  }
  for (const std::string& text : values.all("whatif")) {
    FORETRACE_TRY(whatif::Use use, whatif::parse_use(text));
    options.whatif.push_back(std::move(use));
  }
  if (const auto file = values.text("host")) {
    FORETRACE_TRY(options.host, host::HostCosts::read(*file));
  }
  const std::optional<std::string> learned = values.text("residuals-out");
  if (learned && options.whatif.empty()) {
    return fail(ErrorCode::kUsage, "--residuals-out keeps how far a prediction was off: which one?", "--whatif NAME");
  }
  FORETRACE_TRY(options.residuals, read_residuals(request));
  std::vector<std::string> before_files{values.argument("BEFORE")}, after_files{values.argument("AFTER")};
  for (const std::string& file : values.all("before")) before_files.push_back(file);
  for (const std::string& file : values.all("after")) after_files.push_back(file);
  const std::optional<std::int64_t> rank = values.integer("rank");
  FORETRACE_TRY(const std::vector<trace::Trace> before, load_recordings(before_files, request, "BEFORE", rank));
  FORETRACE_TRY(const std::vector<trace::Trace> after, load_recordings(after_files, request, "AFTER", rank));
  FORETRACE_TRY(const compare::Comparison result, compare::compare(pointers(before), pointers(after), options));
  if (learned && result.verdict) {
    FORETRACE_TRY_VOID(write_residuals(*learned, *result.verdict));
  }
  report::TextStyle style = request.style;
  if (const auto top = values.integer("top")) style.top = static_cast<std::size_t>(*top);
  const bool declined = result.verdict && !result.verdict->prediction.declined.empty();
  return Answer{request.json              ? report::to_json(result)
                : values.flag("markdown") ? report::to_markdown(result, style.top)
                                          : report::to_text(result, style),
                result.gate_failed() ? kGateFailed
                : declined           ? kDeclined
                                     : kDone};
}

}  // namespace

const Verb& compare_verb() {
  static const Verb kVerb{
      .name = "compare",
      .about = "what changed between two recordings, and whether the step got slower",
      .details =
          "Steps are matched by the work they do. What recordings of an unchanged program differ by is noise and not "
          "claimed; several recordings a side (a folder, or --before and --after) say how much that is for yours. The "
          "recorder's steps without the profiler decide where both sides have them, else the traced steps. With "
          "--whatif "
          "BEFORE is predicted with that change and held against AFTER.",
      .arguments = {{"BEFORE", "a trace file, or a folder with several recordings", 1, 1},
                    {"AFTER", "the same, after the change", 1, 1}},
      .options = {{"gate",
                   'g',
                   ValueType::kNumber,
                   "PCT",
                   "",
                   "exit 1 when the step is slower by more than this, beyond noise",
                   {},
                   0.0},
                  {.name = "whatif",
                   .letter = 'w',
                   .type = ValueType::kText,
                   .value_name = "WHATIF",
                   .default_text = "",
                   .about = "BEFORE predicted with this change against AFTER; several are stacked",
                   .suggestions = whatif_names(),
                   .repeats = true},
                  {.name = "before",
                   .type = ValueType::kFile,
                   .value_name = "FILE",
                   .default_text = "",
                   .about = "another recording of BEFORE",
                   .repeats = true},
                  {.name = "after",
                   .type = ValueType::kFile,
                   .value_name = "FILE",
                   .default_text = "",
                   .about = "another recording of AFTER",
                   .repeats = true},
                  {"before-ms",
                   0,
                   ValueType::kNumber,
                   "MS",
                   "what the recorder stored",
                   "the step before, without the profiler",
                   {},
                   0.0},
                  {"after-ms",
                   0,
                   ValueType::kNumber,
                   "MS",
                   "what the recorder stored",
                   "the step after, without the profiler",
                   {},
                   0.0},
                  {"host", 0, ValueType::kFile, "FILE", "the usual host", "what `foretrace calibrate` wrote"},
                  {"markdown", 0, ValueType::kFlag, "", "", "for a pull request"},
                  {"top", 'n', ValueType::kInteger, "N", "10", "rows of each table; JSON always holds all", {}, 1.0},
                  {"residuals", 0, ValueType::kFile, "FILE", "those of the project's own measurements",
                   "how far predictions were off: decides the band"},
                  {"residuals-out", 0, ValueType::kFile, "FILE", "",
                   "add how far this prediction was off, for --residuals"},
                  {"model", 0, ValueType::kText, "NAME", "BEFORE's file name", "what residuals call the model"}},
      .examples = {{"foretrace compare main.json.gz branch.json.gz", "what changed"},
                   {"foretrace compare main/ branch/ --gate 3 --markdown",
                    "several recordings a side, for a pull request"},
                   {"foretrace compare base.json.gz amp.json.gz --whatif amp", "was the prediction right?"}},
      .reads_traces = true,
      .picks_step = true,
      .run = run_compare};
  return kVerb;
}

}  // namespace foretrace::cli
