// Two recordings of one job: the rank, group or collective that changed is named, and nothing else.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/compare/compare.hpp"
#include "foretrace/report/report.hpp"
#include "scripted_job.hpp"

namespace foretrace::test {
namespace {

using compare::JobComparison;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Made {
  std::vector<double> speed = {1, 1, 1};  // per rank: how long its products take, ms
  Ns transfer = 200 * kNsPerUs;
  int elements = 1'000'000;
  int steps = 3;
};

ranks::Job make(const Made& how) {
  ScriptedJob m(how.speed.size());
  m.transfer = how.transfer;
  for (int s = 0; s < how.steps; ++s) {
    for (std::size_t r = 0; r < how.speed.size(); ++r) {
      const Ns takes = static_cast<Ns>(how.speed[r] * kNsPerMs);
      for (int i = 0; i < 4; ++i) m.compute(r, "gemm", takes);
      for (int i = 0; i < 4; ++i) {
        m.compute(r, "gemm", takes, true);
        if (i % 2 == 1) m.collective(r, {.elements = how.elements}, true);
      }
    }
    m.step();
  }
  return m.job();
}

JobComparison difference(const ranks::Job& before, const ranks::Job& after, const compare::Options& options = {}) {
  auto found = compare::compare_jobs(before, after, options);
  EXPECT_TRUE(found) << found.error().to_string();
  return found ? std::move(*found) : JobComparison{};
}

std::vector<std::int64_t> named(const JobComparison& c) {
  std::vector<std::int64_t> out;
  for (const compare::RankChange* r : c.changed_ranks()) out.push_back(r->rank);
  return out;
}

TEST(CompareJobs, ACopyDiffersInNothing) {
  const ranks::Job job = make({});
  const JobComparison c = difference(job, job, {.gate_pct = 1});
  EXPECT_EQ(c.change.pct, 0);
  EXPECT_TRUE(c.changed_ranks().empty());
  for (const auto& g : c.groups) EXPECT_FALSE(g.transfer.named);
  EXPECT_EQ(c.outcome, compare::Outcome::kPassed);
}

TEST(CompareJobs, TheRankIsNamedWhoseOwnWorkChangedAndNotThoseThatWait) {
  const JobComparison c = difference(make({}), make({.speed = {1, 1.3, 1}}), {.gate_pct = 3});
  EXPECT_THAT(named(c), ElementsAre(1));
  EXPECT_NEAR(c.change.pct, 29, 3);
  EXPECT_EQ(c.outcome, compare::Outcome::kFailed);
  EXPECT_GT(c.ranks[0].wait_after, c.ranks[0].wait_before);  // for rank 1
  for (const auto& g : c.groups) EXPECT_FALSE(g.transfer.named);
  EXPECT_THAT(report::sentences(c), Contains(HasSubstr("Rank 1's own work")));
}

TEST(CompareJobs, ASlowerLinkIsTheGroupsAndNoRanks) {
  const JobComparison c = difference(make({}), make({.transfer = kNsPerMs}));
  EXPECT_TRUE(named(c).empty());
  ASSERT_EQ(c.groups.size(), 1u);
  EXPECT_TRUE(c.groups[0].transfer.named);
  EXPECT_NEAR(c.groups[0].transfer.change.pct, 400, 10);
  ASSERT_EQ(c.collectives.size(), 1u);
  EXPECT_TRUE(c.collectives[0].transfer.named);
  EXPECT_EQ(c.collectives[0].before_count, 2u);
}

TEST(CompareJobs, CollectivesOfAnotherSizeAreNewAndGone) {
  const JobComparison c = difference(make({}), make({.elements = 2'000'000}));
  ASSERT_EQ(c.collectives.size(), 2u);
  for (const auto& one : c.collectives) EXPECT_TRUE(one.before_count == 0 || one.after_count == 0);
}

TEST(CompareJobs, OtherNumbersOfStepsAndRanksAreSaid) {
  ranks::Job after = make({.steps = 2});
  after.ranks.pop_back();
  after.missing = {2};
  const JobComparison c = difference(make({}), after);
  EXPECT_EQ(c.ranks.size(), 2u);
  EXPECT_THAT(c.notes, Contains(HasSubstr("only BEFORE has traces of rank 2")));
  EXPECT_THAT(c.notes, Contains(HasSubstr("3 steps before and 2 steps after")));
  ASSERT_EQ(c.collectives.size(), 1u);  // the same collectives, seen by fewer
}

TEST(CompareJobs, SolosSideBySideAreNoJob) {
  ScriptedJob m(2);
  for (std::size_t r = 0; r < 2; ++r) m.compute(r, "gemm", kNsPerMs);
  m.step();
  const ranks::Job solo = m.job();
  const auto found = compare::compare_jobs(solo, make({}));
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, ErrorCode::kDeclined);
}

TEST(CompareJobs, APredictionIsHeldAgainstTheOtherRecording) {
  const auto use = whatif::parse_use("duration:select=gemm,x=1.3");
  ASSERT_TRUE(use);
  const JobComparison c = difference(make({}), make({.speed = {1.3, 1.3, 1.3}}), {.whatif = {*use}});
  ASSERT_TRUE(c.verdict);
  EXPECT_NEAR(*c.verdict->step_error_pct, 0, 1);
  EXPECT_EQ(named(c).size(), 3u);
}

}  // namespace
}  // namespace foretrace::test
