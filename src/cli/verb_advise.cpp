#include "cli/told.hpp"
#include "cli/traces.hpp"
#include "cli/verbs.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::cli {
namespace {

Result<Answer> run_advise(const Request& request) {
  FORETRACE_TRY(const host::UserMeasurements known, told(request.values));
  FORETRACE_TRY(const trace::Trace trace, load_one(request.values.argument("TRACE"), request));
  FORETRACE_TRY(const analysis::Baseline baseline,
                analysis::make_baseline(trace, request.values.integer("step"), known));
  search::AdviseOptions options;
  options.threads = request.load.threads;
  options.progress = request.load.progress;
  if (const std::optional<double> gb = request.values.number("memory-gb")) {
    options.memory_limit = static_cast<std::int64_t>(*gb * 1e9);
  }
  const report::AdviseReport advised{baseline.figures, search::advise(baseline, options)};
  bool answered = false;
  for (const search::Advice& a : advised.advised.alone) answered |= !a.declined();
  return Answer{request.json ? to_json(advised) : to_text(advised, request.style), answered ? kDone : kDeclined};
}

}  // namespace

const Verb& advise_verb() {
  static const Verb kVerb{
      .name = "advise",
      .about = "try everything that applies, rank by gain, within the memory limit",
      .details =
          "Every change of the catalogue that is worth trying is predicted alone; then the best few are combined "
          "further "
          "and further, as `optimize` does, and what does not pay beside the others is dropped. The combination fits "
          "the GPU's memory. Gains are in samples per second, so that another batch can be compared.",
      .arguments = {{"TRACE", "a trace file, or - for standard input", 1, 1}},
      .options = {memory_option()},
      .examples = {{"foretrace advise trace.json.gz", "what to switch on"},
                   {"foretrace advise trace.json.gz -m 71.6 --memory-gb 24",
                    "with the real step's time, on a smaller GPU"}},
      .reads_traces = true,
      .picks_step = true,
      .calibrates = true,
      .takes_plugins = true,
      .run = run_advise};
  return kVerb;
}

}  // namespace foretrace::cli
