#include <fmt/format.h>

#include <algorithm>

#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> kernels(const ranks::Job& job, const Request& request) {
  analysis::RanksOptions options;
  options.step = request.values.integer("step");
  options.align = !request.values.flag("raw-clocks");
  options.threads = request.load.threads;
  options.progress = request.load.progress;
  FORETRACE_TRY(const analysis::RanksReport report, analysis::analyse_ranks(job, options));
  return Answer{request.json ? report::to_json(report) : report::to_text(report, request.style)};
}

// One file of all workers' operations over many steps.
Result<Answer> pipeline(const trace::Trace& trace, const Request& request) {
  FORETRACE_TRY(const ranks::PipelineJob job, ranks::read_pipeline(trace));
  FORETRACE_TRY(ranks::PipelineAnswers answers, ranks::answer(job));
  if (const auto step = request.values.integer("step")) {
    const auto it =
        std::find_if(answers.steps.begin(), answers.steps.end(), [&](const auto& s) { return s.number == *step; });
    if (it == answers.steps.end()) {
      return fail(ErrorCode::kUsage, fmt::format("the trace has no step {}", *step),
                  fmt::format("there are {}, from {} to {}", answers.steps.size(), answers.steps.front().number,
                              answers.steps.back().number));
    }
    answers = ranks::of_step(answers, static_cast<std::size_t>(it - answers.steps.begin()));
  }
  return Answer{request.json ? report::to_json(job, answers) : report::to_text(job, answers, request.style)};
}

Result<Answer> run_ranks(const Request& request) {
  if (request.values.text("ray") && !request.extensions.read_all) {
    return fail(ErrorCode::kUsage, "--ray is served by the Python command",
                "pip install 'foretrace[ray]', then: python3 -m foretrace ranks … --ray ADDRESS");
  }
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(request.values.argument("TRACE"), request.load));
  if (files.size() == 1) {
    FORETRACE_TRY(trace::Trace trace, trace::load(files[0], request.load));
    if (ranks::is_pipeline(trace)) return pipeline(trace, request);
    std::vector<trace::Trace> one;
    one.push_back(std::move(trace));
    FORETRACE_TRY(const ranks::Job job, ranks::assemble(std::move(one)));
    return kernels(job, request);
  }
  if (request.values.text("ray")) {
    FORETRACE_TRY(const ranks::Job job, ranks::assemble(files, request.extensions.read_all(files, request.load)));
    return kernels(job, request);
  }
  FORETRACE_TRY(const ranks::Job job, ranks::load_job(files, request.load));
  return kernels(job, request);
}

}  // namespace

const Verb& ranks_verb() {
  static const Verb kVerb{
      .name = "ranks",
      .about = "all ranks of one job: clocks, waits against transfers, stragglers",
      .details =
          "Matches the collectives of all ranks, puts their clocks on one, splits the time in collectives into waiting "
          "for the last rank and moving data, simulates the step over all ranks, and names ranks that hold the "
          "others up: why, and what the step would cost without. Ranks that are missing, cut short or of another "
          "job are named and left out. An operation trace of a pipeline-parallel job (one CSV file of all workers) "
          "is replayed step by step, with and without stragglers.",
      .arguments = {{"TRACE", "a folder with one trace per rank, or the files", 1, Argument::kAny}},
      .options = {step_option(),
                  {"raw-clocks", 0, ValueType::kFlag, "", "", "take the ranks' clocks as written"},
                  {"ray", 0, ValueType::kText, "ADDRESS", "",
                   "read the traces on a Ray cluster; local: start one here"}},
      .examples = {{"foretrace ranks traces/", "all ranks of a job"},
                   {"foretrace ranks rank0.json.gz rank1.json.gz --step 12", "another step"},
                   {"foretrace ranks traces/ --json | jq '.stragglers'", "for scripts"},
                   {"foretrace ranks job.csv.gz", "operations of a pipeline-parallel job"}},
      .reads_traces = true,
      .run = run_ranks};
  return kVerb;
}

}  // namespace foretrace::cli
