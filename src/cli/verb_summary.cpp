#include "cli/told.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_summary(const Request& request) {
  FORETRACE_TRY(const trace::Trace trace, load_one(request.values.argument("TRACE"), request));
  analysis::SummaryOptions options;
  options.step = request.values.integer("step");
  options.samples = request.values.number("batch");
  FORETRACE_TRY(const host::UserMeasurements known, told(request.values));
  options.measured_ms = known.measured_ms;
  options.host = known.host;
  FORETRACE_TRY(const analysis::SummaryReport report, analysis::summarise(trace, trace::find_steps(trace), options));
  report::TextStyle style = request.style;
  if (const auto top = request.values.integer("top")) style.top = static_cast<std::size_t>(*top);
  return Answer{request.json ? report::to_json(report) : report::to_text(report, style)};
}

}  // namespace

const Verb& summary_verb() {
  static const Verb verb{
      .name = "summary",
      .about = "where the time of a step goes",
      .details =
          "Shows one step, the median one unless --step says otherwise: what holds it up, breakdown, critical path, "
          "lanes and their use, time by phase, layer, operation and kernel, and the memory peak. GPU work belongs to "
          "the step that launched it. Phases and layers come from ranges, the autograd thread and sequence numbers; "
          "where nothing names a layer, an operation and its shape stand for one. Breakdown and critical path come "
          "from the simulated step, which `foretrace replay` compares with the trace.",
      .arguments = {{"TRACE", "a trace file, a folder with one file per rank, or - for standard input", 1,
                     Argument::kAny}},
      .options = {{"top", 'n', ValueType::kInteger, "N", "10", "rows of each table; JSON always holds all", {}, 1.0},
                  {"batch", 0, ValueType::kNumber, "N", "", "samples in a step, to print samples per second", {}, 0.0}},
      .examples = {{"foretrace summary trace.json.gz", "the median step"},
                   {"foretrace summary trace.json.gz --step 12 --top 30", "ProfilerStep#12, longer tables"},
                   {"foretrace summary traces/ --rank 3", "one rank of a job"},
                   {"foretrace summary trace.json.gz --json -o summary.json", "everything, for scripts"}},
      .reads_traces = true,
      .picks_step = true,
      .calibrates = true,
      .run = run_summary};
  return verb;
}

}  // namespace foretrace::cli
