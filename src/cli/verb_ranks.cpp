#include <fmt/format.h>

#include <algorithm>

#include "base/install_hint.hpp"
#include "cli/inputs.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/cli/run.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

// One file with the operations of all workers over many steps.
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
    return served_by_python(
        "--ray",
        fmt::format("{}, and `pip install ray`, then: python3 -m foretrace ranks … --ray ADDRESS", kInstallModule));
  }
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(request.values.argument("TRACE"), request.load));
  const analysis::RanksOptions options{request.values.integer("step"), !request.values.flag("raw-clocks"),
                                       request.load.threads, request.load.progress};
  const auto answer = [&](const analysis::RanksReport& report) {
    return Answer{request.json ? report::to_json(report) : report::to_text(report, request.style)};
  };
  if (files.size() > 1 && !request.values.text("ray")) {
    FORETRACE_TRY(const analysis::RanksReport report, analysis::analyse_ranks(files, request.load, options));
    return answer(report);
  }
  Result<ranks::Job> job;
  if (files.size() == 1) {
    std::vector<trace::Trace> one(1);
    FORETRACE_TRY(one[0], trace::load(files[0], request.load));
    if (ranks::is_pipeline(one[0])) return pipeline(one[0], request);
    job = ranks::assemble(std::move(one));
  } else {
    job = ranks::assemble(files, request.extensions.read_all(files, request.load));
  }
  if (!job) return forward(job);
  FORETRACE_TRY(const analysis::RanksReport report, analysis::analyse_ranks(*job, options));
  return answer(report);
}

}  // namespace

Verb ranks_verb() {
  return {
      .name = "ranks",
      .about = "all ranks of one job: clocks, waiting and transfer times, stragglers",
      .details =
          "Matches the collectives of all ranks, aligns their clocks, splits the time in collectives into waiting for "
          "the last rank and moving data, and simulates the step over all ranks. It names the ranks that hold the "
          "others up: why, and what the step would take without them. Ranks that are missing, truncated or from "
          "another job are named and left out. An operation trace of a pipeline-parallel job (one CSV file for all "
          "workers) is replayed step by step, with and without stragglers.",
      .arguments = {{"TRACE", "a folder with one trace per rank, or the files", 1, Argument::kAny}},
      .options = {step_option(), flag("raw-clocks", "take the ranks' clocks as recorded, without aligning them"),
                  ray_option("read the traces")},
      .examples = {{"foretrace ranks traces/", "all ranks of a job"},
                   {"foretrace ranks rank0.json.gz rank1.json.gz --step 12", "another step"},
                   {"foretrace ranks traces/ --json | jq '.stragglers'", "for scripts"},
                   {"foretrace ranks job.csv.gz", "operations of a pipeline-parallel job"}},
      .shares = kReading,
      .run = run_ranks};
}

}  // namespace foretrace::cli
