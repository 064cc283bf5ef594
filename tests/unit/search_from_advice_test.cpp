// What `optimize` finds with a small budget is at least what `advise` finds, under any memory limit.

#include <gtest/gtest.h>

#include <string>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/search/optimize.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::search {
namespace {

class FromAdvice : public testing::TestWithParam<const char*> {};

TEST_P(FromAdvice, OptimizeGainsAtLeastAsMuch) {
  const Result<trace::Trace> trace = trace::load(FORETRACE_SOURCE_DIR "/" + std::string(GetParam()));
  ASSERT_TRUE(trace);
  const Result<analysis::Baseline> base = analysis::make_baseline(*trace, {}, {});
  ASSERT_TRUE(base);
  ASSERT_TRUE(base->figures.reserved_bytes);
  const auto today = static_cast<double>(*base->figures.reserved_bytes);
  for (const double share : {0.6, 0.8, 1.0}) {
    const auto limit = static_cast<std::int64_t>(share * today);
    AdviseOptions advise_options;
    advise_options.memory_limit = limit;
    const Advised advised = advise(*base, advise_options);
    OptimizeOptions options;
    options.memory_limit = limit;
    options.evaluations = 20;
    options.explain = false;
    const Result<Optimized> found = optimize(*base, options);
    if (!advised.together || !advised.together->fits) continue;
    ASSERT_TRUE(found) << GetParam() << " at " << share;
    EXPECT_GE(found->prediction.gain(), advised.together->prediction.gain() * (1 - 1e-9))
        << GetParam() << " at " << share << ": " << describe(found->best) << " against "
        << advised.together->prediction.whatif;
    EXPECT_LE(found->prediction.reserved_bytes.value_or(0), limit);
  }
}

INSTANTIATE_TEST_SUITE_P(Traces, FromAdvice,
                         testing::Values("examples/resnet50-h200.json.gz",
                                         "data/h200-clean/mobilenet_v3_large@16.base.json.gz"));

}  // namespace
}  // namespace foretrace::search
