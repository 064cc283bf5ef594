// Large jobs: ranks that do the same work stand for each other.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "scripted_job.hpp"
#include "whatif/job/fold.hpp"

namespace foretrace::test {
namespace {

using analysis::Baseline;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using whatif::Awaited;
using whatif::Meeting;

ranks::RankPlace place(std::uint32_t stage, std::uint32_t peers, Ns compute) {
  return {.stage = stage, .peers = peers, .compute = compute};
}

Meeting message(std::uint32_t from, std::uint32_t to) {
  Meeting m;
  m.awaited = Awaited::kPartner;
  m.members = {{from, 0, 1, true, true}, {to, 0, 1, true, true}};
  return m;
}

TEST(JobFold, TheTypicalAndTheSlowestOfEachKindAreSimulated) {
  const std::vector<ranks::RankPlace> places{place(0, 0, 5), place(0, 0, 9), place(0, 0, 6), place(0, 1, 3),
                                             place(0, 1, 4)};
  EXPECT_THAT(whatif::simulated_ranks(places, {}, {}, 4), ElementsAre(0, 1, 1, 1, 1));
  EXPECT_THAT(whatif::simulated_ranks(places, {}, {0}, 4), ElementsAre(1, 1, 1, 1, 1));
  EXPECT_THAT(whatif::simulated_ranks(places, {}, {}, 5), ElementsAre(1, 1, 1, 1, 1));  // no large job
}

TEST(JobFold, StagesOfOnePipelineStayTogether) {
  // Four replicas of two stages: ranks 0 to 3 are the first stages, 4 to 7 the second ones.
  std::vector<ranks::RankPlace> places;
  for (const Ns compute : {5, 6, 7, 9}) places.push_back(place(0, 0, compute));
  for (const Ns compute : {1, 1, 1, 1}) places.push_back(place(1, 1, compute));
  const std::vector<Meeting> messages{message(0, 4), message(5, 1), message(2, 6), message(3, 7)};
  EXPECT_THAT(whatif::simulated_ranks(places, messages, {}, 4), ElementsAre(0, 1, 0, 1, 0, 1, 0, 1));
  EXPECT_THAT(whatif::simulated_ranks(places, messages, {4}, 4), ElementsAre(1, 1, 0, 1, 1, 1, 0, 1));
}

ScriptedJob data_parallel(std::size_t ranks, std::size_t late) {
  ScriptedJob m(ranks);
  for (int s = 0; s < 3; ++s) {
    for (std::size_t r = 0; r < ranks; ++r) {
      const Ns takes = kNsPerMs + (r == late ? kNsPerMs / 2 : 0);
      for (int i = 0; i < 3; ++i) m.compute(r, "gemm", takes);
      for (int i = 0; i < 3; ++i) m.compute(r, "gemm", takes, true);
      m.collective(r, {.elements = 1000}, true);
    }
    m.step();
  }
  return m;
}

whatif::Prediction twice_the_network(const Baseline& base) {
  const auto use = whatif::parse_use("bandwidth:x=2");
  EXPECT_TRUE(use);
  return analysis::predict(base, {*use});
}

TEST(JobFold, ALargeJobTakesWhatItsSlowestRankMakesItTake) {
  ScriptedJob large = data_parallel(70, 37), small = data_parallel(2, 1);
  const ranks::Job many = large.job(), two = small.job();
  const auto folded = analysis::make_baseline(many, std::nullopt, {}),
             whole = analysis::make_baseline(two, std::nullopt, {});
  ASSERT_TRUE(folded) << folded.error().to_string();
  ASSERT_TRUE(whole);
  EXPECT_THAT(folded->figures.job->notes, Contains(HasSubstr("of 70 ranks 2 are simulated")));
  EXPECT_THAT(whole->figures.job->notes, testing::Not(Contains(HasSubstr("are simulated"))));
  ASSERT_EQ(folded->figures.job->ranks.size(), 2U);
  EXPECT_EQ(folded->figures.job->ranks[1].rank, 37);
  EXPECT_NEAR(static_cast<double>(folded->figures.unprofiled) / static_cast<double>(whole->figures.unprofiled), 1,
              1e-3);
  EXPECT_NEAR(
      static_cast<double>(twice_the_network(*folded).step) / static_cast<double>(twice_the_network(*whole).step), 1,
      1e-3);
}

TEST(JobFold, ARankThatIsNamedIsSimulated) {
  ScriptedJob large = data_parallel(70, 37);
  const ranks::Job many = large.job();
  const auto base = analysis::make_baseline(many, std::nullopt, {}, {12});
  ASSERT_TRUE(base) << base.error().to_string();
  std::vector<std::int64_t> simulated;
  for (const auto& rank : base->figures.job->ranks) simulated.push_back(rank.rank);
  EXPECT_THAT(simulated, Contains(12));
  EXPECT_FALSE(analysis::make_baseline(many, std::nullopt, {}, {70}));
}

}  // namespace
}  // namespace foretrace::test
