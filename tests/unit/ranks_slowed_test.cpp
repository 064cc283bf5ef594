// Real jobs of two ranks in which one was slowed on purpose (data/h200-ranks/slowed): the cause is named, and the step without
// it is what the same job took without slowing.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/analysis/ranks.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::test {
namespace {

struct Slowed {
  const char* files;  ///< of data/h200-ranks/slowed
  ranks::StragglerCause cause;
  double
      unslowed_ms;  ///< the case slow-none of the same model in truth.jsonl, profiled as the traces are: mean of two steps
  double unprofiled_ms;  ///< its median without the profiler
};

std::ostream& operator<<(std::ostream& out, const Slowed& s) { return out << s.files; }

class RanksSlowed : public ::testing::TestWithParam<Slowed> {};

Result<ranks::Job> job_of(const Slowed& slowed) {
  const std::filesystem::path folder = std::filesystem::path(FORETRACE_SOURCE_DIR) / "data" / "h200-ranks" / "slowed";
  std::vector<std::string> paths;
  for (const char* rank : {"r0", "r1"}) {
    paths.push_back((folder / (std::string(slowed.files) + "." + rank + ".json.zst")).string());
  }
  return ranks::load_job(paths);
}

TEST_P(RanksSlowed, NoStragglerIsTheJobThatWasNotSlowed) {
  Result<ranks::Job> job = job_of(GetParam());
  ASSERT_TRUE(job) << job.error().to_string();
  const auto baseline = analysis::make_baseline(*job, std::nullopt, {}, {});
  ASSERT_TRUE(baseline) << baseline.error().to_string();
  const auto use = whatif::parse_use("no-straggler");
  ASSERT_TRUE(use);
  const whatif::Prediction even = analysis::predict(*baseline, {*use});
  ASSERT_EQ(even.declined, "");
  EXPECT_NEAR(static_cast<double>(even.step) / 1e6 / GetParam().unprofiled_ms, 1, 0.1);
}

TEST_P(RanksSlowed, CauseAndCostAreNamed) {
  Result<ranks::Job> job = job_of(GetParam());
  ASSERT_TRUE(job) << job.error().to_string();
  const Result<analysis::RanksReport> r = analysis::analyse_ranks(*job, {});
  ASSERT_TRUE(r) << r.error().to_string();
  EXPECT_EQ(r->replayed, r->traced);

  const double traced = static_cast<double>(r->traced) / 1e6;
  const double unslowed = GetParam().unslowed_ms;
  ASSERT_GT(traced, 1.3 * unslowed);  // it was slowed
  ASSERT_FALSE(r->stragglers.found.empty());
  const ranks::Straggler& first = r->stragglers.found[0];
  EXPECT_EQ(first.rank, 1U);
  EXPECT_EQ(first.cause, GetParam().cause);
  EXPECT_NEAR(static_cast<double>(r->stragglers.without_any) / 1e6 / unslowed, 1, 0.08);
  EXPECT_NEAR(static_cast<double>(first.cost) / 1e6 / (traced - unslowed), 1, 0.12);
  for (std::size_t i = 1; i < r->stragglers.found.size(); ++i) {
    EXPECT_LT(r->stragglers.found[i].cost, first.cost / 5) << "another cause counts for much";
  }
}

INSTANTIATE_TEST_SUITE_P(H200, RanksSlowed,
                         ::testing::Values(Slowed{"resnet18.launch", ranks::StragglerCause::kLateLaunch, 34.45, 32.43},
                                           Slowed{"resnet18.loader", ranks::StragglerCause::kDataLoader, 34.45, 32.43},
                                           Slowed{"resnet50.extra", ranks::StragglerCause::kSlowKernel, 83.45, 81.12}));

}  // namespace
}  // namespace foretrace::test
