// What a training step would cost after some changes, with the installed library:
//
//   after TRACE WHATIF…          after trace.json.gz amp:dtype=bf16 fused-optimizer
//
// Where the trace comes from `foretrace record`, the recorder's measurement of the step without the profiler is used.
#include <cstdio>
#include <string>
#include <vector>

#include "foretrace/foretrace.hpp"

namespace {

using namespace foretrace;

Result<std::string> answer(const std::string& file, const std::vector<std::string>& changes) {
  FORETRACE_TRY(const trace::Trace trace, trace::load(file));
  FORETRACE_TRY(const analysis::Baseline today, analysis::make_baseline(trace, {}, {}));
  std::vector<whatif::Use> uses;
  for (const std::string& change : changes) {
    FORETRACE_TRY(whatif::Use use, whatif::parse_use(change));
    uses.push_back(std::move(use));
  }
  const whatif::Prediction after = analysis::predict(today, uses);
  if (!after.declined.empty()) return fail(ErrorCode::kDeclined, after.declined);
  const analysis::StepFigures& now = today.figures;
  char line[200];
  std::snprintf(line, sizeof line, "%s step of %.3f ms -> %.3f ms (%.3f to %.3f)",
                now.measured ? "measured" : "estimated", to_ms(now.measured.value_or(now.unprofiled)),
                to_ms(after.step), to_ms(after.low), to_ms(after.high));
  return std::string(line);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const Result<std::string> line = answer(argv[1], {argv + 2, argv + argc});
  std::puts(line ? line->c_str() : line.error().to_string().c_str());
  return line ? 0 : 1;
}
