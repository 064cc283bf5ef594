#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/report/ranks.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_ranks(const Request& request) {
  FORETRACE_TRY(const std::vector<std::string> files, locate_traces(request.values.argument("TRACE")));
  FORETRACE_TRY(const ranks::Job job, ranks::load_job(files, request.load));
  report::RanksOptions options;
  options.step = request.values.integer("step");
  options.align = !request.values.flag("raw-clocks");
  options.threads = request.load.threads;
  options.progress = request.load.progress;
  FORETRACE_TRY(const report::RanksReport report, report::analyse_ranks(job, options));
  return Answer{request.json ? report::to_json(report) : report::to_text(report, request.style)};
}

}  // namespace

const Verb& ranks_verb() {
  static const Verb kVerb{
      .name = "ranks",
      .about = "all ranks of one job: clocks, waits against transfers, stragglers",
      .details = "Matches the collectives of all ranks, puts their clocks on one, splits the time in collectives into waiting "
                 "for the last rank and moving data, simulates the step over all ranks, and names ranks that hold the "
                 "others up: why, and what the step would cost without. Ranks that are missing, cut short or of another "
                 "job are named and left out.",
      .arguments = {{"TRACE", "a folder with one trace per rank, or the files", 1, Argument::kAny, {}}},
      .options = {{"step", 0, ValueType::kInteger, "N", "the median step", "the step named ProfilerStep#N", {}, {}},
                  {"raw-clocks", 0, ValueType::kFlag, "", "", "take the ranks' clocks as written", {}, {}}},
      .examples = {{"foretrace ranks traces/", "all ranks of a job"},
                   {"foretrace ranks rank0.json.gz rank1.json.gz --step 12", "another step"},
                   {"foretrace ranks traces/ --json | jq '.stragglers'", "for scripts"}},
      .reads_traces = true,
      .picks_step = false,
      .run = run_ranks};
  return kVerb;
}

}  // namespace foretrace::cli
