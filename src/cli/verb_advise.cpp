#include <algorithm>

#include "cli/inputs.hpp"
#include "cli/verbs.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_advise(const Request& request) {
  FORETRACE_TRY(const OpenBaseline open, open_baseline(request, request.values.argument("TRACE")));
  const search::AdviseOptions options{
      .memory_limit = memory_limit(request.values), .threads = request.load.threads, .progress = request.load.progress};
  const report::AdviseReport report{open.baseline.figures, search::advise(open.baseline, options)};
  const auto& alone = report.advised.alone;
  const bool answered = std::any_of(alone.begin(), alone.end(), [](const auto& a) { return !a.declined(); });
  return Answer{request.json ? to_json(report) : to_text(report, request.style), answered ? kDone : kDeclined};
}

}  // namespace

Verb advise_verb() {
  return {.name = "advise",
          .about = "try every change that applies and rank them by gain, within the memory limit",
          .details =
              "Every change in the catalogue that is worth trying is predicted alone. Then the best ones are combined, "
              "as `optimize` does, and changes that no longer gain next to the others are dropped. The combination "
              "fits into "
              "the GPU's memory. Gains are in samples per second, so that different batch sizes can be compared.",
          .arguments = {{"TRACE", "a trace file, a folder with one file per rank, or - for standard input", 1,
                         Argument::kAny}},
          .options = {memory_option()},
          .examples = {{"foretrace advise trace.json.gz", "what to switch on"},
                       {"foretrace advise trace.json.gz -m 71.6 --memory-gb 24",
                        "with the measured time of a step, on a smaller GPU"}},
          .shares = kPrediction,
          .run = run_advise};
}

}  // namespace foretrace::cli
