#include "cli/inputs.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_summary(const Request& request) {
  analysis::SummaryOptions options{request.values.integer("step"), request.values.number("batch")};
  FORETRACE_TRY(options.measurements, user_measurements(request.values));
  FORETRACE_TRY(const trace::Trace trace, load_one(request.values.argument("TRACE"), request));
  FORETRACE_TRY(const analysis::SummaryReport report, analysis::summarise(trace, trace::find_steps(trace), options));
  return Answer{request.json ? report::to_json(report) : report::to_text(report, request.style)};
}

}  // namespace

Verb summary_verb() {
  return {
      .name = "summary",
      .about = "where the time of a step goes",
      .details =
          "Shows one step, the median one unless --step is given: its bottleneck, breakdown, critical path, how busy "
          "threads and streams are, time by phase, layer, operation and kernel, and the memory peak. GPU work belongs "
          "to the step that launched it. Phases and layers come from ranges, the autograd thread and sequence "
          "numbers; where nothing names a layer, an operation and its shape stand for it. Breakdown and critical "
          "path come from the simulated step, which `foretrace replay` compares with the trace.",
      .arguments = {{"TRACE", "a trace file, a folder with one file per rank, or - for standard input", 1,
                     Argument::kAny}},
      .options = {top_option(), batch_option()},
      .examples = {{"foretrace summary trace.json.gz", "the median step"},
                   {"foretrace summary trace.json.gz --step 12 --top 30", "ProfilerStep#12, longer tables"},
                   {"foretrace summary traces/ --rank 3", "one rank of a job"},
                   {"foretrace summary trace.json.gz --json -o summary.json", "everything, for scripts"}},
      .shares = kCalibration | kStep | kReading,
      .run = run_summary};
}

}  // namespace foretrace::cli
