// What a step would cost after some changes, with the installed library: after TRACE WHATIF…
#include <cstdio>
#include <cstring>

#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/version.hpp"

namespace {

int failed(const foretrace::Error& error) {
  std::fprintf(stderr, "%s\n", error.to_string().c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace foretrace;
  if (std::strcmp(version(), FORETRACE_VERSION) != 0) return 1;
  if (argc < 3) return 2;
  const Result<trace::Trace> trace = trace::load(argv[1]);
  if (!trace) return failed(trace.error());
  Result<analysis::Baseline> baseline = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  if (!baseline) return failed(baseline.error());
  std::vector<whatif::Use> uses;
  for (int i = 2; i < argc; ++i) {
    const Result<whatif::Use> use = whatif::parse_use(argv[i]);
    if (!use) return failed(use.error());
    uses.push_back(*use);
  }
  const whatif::Prediction p = whatif::predict(baseline->model, uses, std::nullopt);
  std::printf("%s %.3f ms -> %.3f ms\n", version(), to_ms(baseline->figures.unprofiled), to_ms(p.step));
  return p.declined.empty() && p.step > 0 ? 0 : 1;
}
