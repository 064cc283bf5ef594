#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/byte_source.hpp"
#include "cli/inputs.hpp"
#include "cli/output.hpp"
#include "cli/verbs.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

// The rows of the file, else the built-in ones of the device, with the new ones after them: a band learns from both.
Status write_residuals(const std::string& path, const compare::Verdict& verdict) {
  std::vector<whatif::Residuals::Row> rows = whatif::Residuals::built_in(verdict.device).rows();
  if (std::filesystem::exists(path)) {
    FORETRACE_TRY(const std::string text, read_file(path, kLargestTable));
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

// The recordings of one side: its argument, and further ones given by an option.
Result<Recordings> side(const Request& request, const char* argument, const char* option) {
  std::vector<std::string> files = request.values.argument(argument);
  for (const std::string& file : request.values.all(option)) files.push_back(file);
  return load_side(files, request, argument);
}

// The exit code that the gate asks for; nothing where it passed or there is none.
std::optional<int> gate_code(std::optional<compare::Outcome> outcome, std::string_view inconclusive_as) {
  if (!outcome || *outcome == compare::Outcome::kPassed) return {};
  if (*outcome == compare::Outcome::kFailed || inconclusive_as == "fail") return kGateFailed;
  if (inconclusive_as == "pass") return {};
  return kInconclusive;
}

// Both sides are all ranks of a job.
// Of recordings of one rank and of jobs alike.
template <class Compared>
Answer answer_of(const Request& request, const Compared& result) {
  const bool declined = result.verdict && !result.verdict->prediction.declined.empty();
  return {request.json                      ? report::to_json(result)
          : request.values.flag("markdown") ? report::to_markdown(result, request.style.top)
                                            : report::to_text(result, request.style),
          gate_code(result.outcome, request.values.text("inconclusive").value_or(""))
              .value_or(declined ? kDeclined : kDone)};
}

Result<Answer> compare_jobs(const Request& request, const ranks::Job& before, const ranks::Job& after,
                            const compare::Options& options) {
  const Values& values = request.values;
  if (!values.all("before").empty() || !values.all("after").empty()) {
    return fail(ErrorCode::kUsage, "of a job, one recording per side is compared",
                "leave out --before and --after, or pick a rank with --rank");
  }
  if (values.text("residuals-out")) {
    return fail(ErrorCode::kUsage, "--residuals-out learns from one rank", "--rank R picks it");
  }
  FORETRACE_TRY(const compare::JobComparison result, compare::compare_jobs(before, after, options));
  return answer_of(request, result);
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
  FORETRACE_TRY(options.whatif, analysis::parse_uses(values.all("whatif")));
  FORETRACE_TRY(const host::UserMeasurements measurements, user_measurements(values));
  options.host = measurements.host;
  const std::optional<std::string> learned = values.text("residuals-out");
  if (learned && options.whatif.empty()) {
    return fail(ErrorCode::kUsage, "--residuals-out stores the error of a prediction: of which one?", "--whatif NAME");
  }
  FORETRACE_TRY(options.residuals, read_residuals(values));
  FORETRACE_TRY(const Recordings before, side(request, "BEFORE", "before"));
  FORETRACE_TRY(const Recordings after, side(request, "AFTER", "after"));
  if (before.job && after.job) return compare_jobs(request, *before.job, *after.job, options);
  if (before.job || after.job) {
    return fail(ErrorCode::kUsage,
                fmt::format("{} holds several ranks of a job and {} holds one recording",
                            before.job ? "BEFORE" : "AFTER", before.job ? "AFTER" : "BEFORE"),
                "give a folder with all ranks on both sides, or --rank R to compare one rank");
  }
  FORETRACE_TRY(const compare::Comparison result,
                compare::compare(pointers(before.traces), pointers(after.traces), options));
  if (learned && result.verdict) {
    FORETRACE_TRY_VOID(write_residuals(*learned, *result.verdict));
  }
  return answer_of(request, result);
}

}  // namespace

Verb compare_verb() {
  using enum ValueType;
  return {
      .name = "compare",
      .about = "what changed between two recordings, and whether the step got slower",
      .details =
          "Steps are matched by the work they do. Differences that recordings of an unchanged program show too are "
          "noise "
          "and are not reported; several recordings per side (a folder, or --before and --after) measure how much that "
          "is for your program. Steps the recorder timed without the profiler decide, where both sides have them; "
          "otherwise the traced steps do. Two folders with all ranks of a job are compared as jobs: which rank, group "
          "or "
          "collective changed. With --whatif, BEFORE is predicted with that change and compared with AFTER.",
      .arguments = {{"BEFORE", "a trace file, a folder with several recordings, or one with all ranks of a job"},
                    {"AFTER", "the same, after the change"}},
      .options = {option(kNumber, "gate", "PCT", "",
                         "exit with 1 when the step is slower by more than this, beyond noise; with 5 when the "
                         "recordings cannot tell")
                      .letter_is('g')
                      .at_least(0),
                  option(kText, "inconclusive", "AS", "",
                         "treat an inconclusive gate as passed or failed: exit with 0 or 1")
                      .one_of({"pass", "fail"}),
                  option(kText, "whatif", "WHATIF", "",
                         "predict BEFORE with this change and compare with AFTER; several are stacked")
                      .suggesting(whatif_names())
                      .repeated(),
                  option(kFile, "before", "FILE", "", "another recording of BEFORE").repeated(),
                  option(kFile, "after", "FILE", "", "another recording of AFTER").repeated(),
                  option(kNumber, "before-ms", "MS", "what the recorder stored",
                         "the time of a step before, without the profiler")
                      .at_least(0),
                  option(kNumber, "after-ms", "MS", "what the recorder stored",
                         "the time of a step after, without the profiler")
                      .at_least(0),
                  option(kFile, "host", "FILE", "the default host", "CPU costs, as `foretrace calibrate` wrote them"),
                  flag("markdown", "as Markdown, for a pull request"), top_option(), residuals_option(),
                  option(kFile, "residuals-out", "FILE", "",
                         "add the error of this prediction to FILE, for --residuals"),
                  option(kText, "model", "NAME", "BEFORE's file name", "the model's name in the residuals")},
      .examples = {{"foretrace compare main.json.gz branch.json.gz", "what changed"},
                   {"foretrace compare main/ branch/ --gate 3 --markdown",
                    "several recordings a side, for a pull request"},
                   {"foretrace compare monday/ tuesday/", "two recordings of one job, all ranks"},
                   {"foretrace compare base.json.gz amp.json.gz --whatif amp", "was the prediction right?"}},
      .shares = kStep | kReading,
      .run = run_compare};
}

}  // namespace foretrace::cli
