// Clocks of several ranks: offsets and drift put into a job come out again, and no collective is left in an impossible
// order.

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "job_maker.hpp"
#include "ranks/clocks.hpp"
#include "ranks/collectives.hpp"

namespace foretrace::test {
namespace {

using ranks::Clocks;
using ranks::Job;
using ranks::Matching;

struct Aligned {
  Matching matching;
  Clocks clocks;
};
Aligned align(const Job& job) {
  Matching m = ranks::match(job);
  Clocks c = ranks::align_clocks(job, m);
  return {std::move(m), std::move(c)};
}

TEST(RanksClocks, OffsetsComeOut) {
  JobMaker m(4);
  m.offset = {0, 5'000'000, -5'000'000, 1'234'567};
  m.compute = {1'000'000, 1'300'000, 900'000, 1'100'000};
  const Aligned a = align(m.job());
  for (std::size_t r = 0; r < 4; ++r) EXPECT_LE(std::abs(a.clocks.clocks[r].offset - m.offset[r]), 100) << r;
  EXPECT_GT(a.clocks.violations_before, 0U);
  EXPECT_TRUE(a.clocks.impossible.empty());
}

TEST(RanksClocks, OffsetsLongerThanTheTrace) {
  JobMaker m(3);
  m.offset = {0, 3600 * kNsPerSecond, -500 * kNsPerMs};
  const Aligned a = align(m.job());
  for (std::size_t r = 0; r < 3; ++r) EXPECT_LE(std::abs(a.clocks.clocks[r].offset - m.offset[r]), 100) << r;
}

TEST(RanksClocks, DriftOfAMinute) {
  JobMaker m(4);
  m.steps = 300;
  m.period = 200 * kNsPerMs;  // 60 s
  m.noise = 20 * kNsPerUs;
  m.offset = {0, 5'000'000, -3'000'000, 400'000};
  m.drift_ppm = {0, 20, -20, 7};
  const Job job = m.job();
  const Aligned a = align(job);
  ASSERT_TRUE(a.clocks.drift_fitted);
  EXPECT_TRUE(a.clocks.impossible.empty());
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_NEAR(a.clocks.clocks[r].drift_ppm, m.drift_ppm[r], 1.0) << r;
    // At both ends of the minute, a moment on a rank's clock is the first rank's moment.
    for (const Ns t : {Ns{0}, 60 * kNsPerSecond}) {
      const Ns shown = t + kNsPerSecond + m.offset[r] + static_cast<Ns>(static_cast<double>(t) * m.drift_ppm[r] * 1e-6);
      EXPECT_LE(std::abs(a.clocks.clocks[r].aligned(shown) - t - kNsPerSecond), 20'000) << r;
    }
  }
}

TEST(RanksClocks, RanksOfOneHostShareAClock) {
  JobMaker m(6);
  m.steps = 10;
  m.noise = 40 * kNsPerUs;
  m.offset = {0, 0, 0, 3'000'000, 3'000'000, 3'000'000};
  const Aligned a = align(m.job());
  EXPECT_EQ(a.clocks.hosts, 2U);
  for (std::size_t r = 0; r < 6; ++r) {
    EXPECT_EQ(a.clocks.clocks[r].host, r / 3) << r;
    const std::size_t first_of_host = r < 3 ? 0 : 3;
    EXPECT_NEAR(static_cast<double>(a.clocks.clocks[r].offset - a.clocks.clocks[first_of_host].offset), 0, 3e3) << r;
  }
}

TEST(RanksClocks, NoDriftWhereThereIsNone) {
  JobMaker m(3);
  m.steps = 60;
  m.period = 100 * kNsPerMs;
  m.noise = 30 * kNsPerUs;
  EXPECT_FALSE(align(m.job()).clocks.drift_fitted);
}

// Ends say one thing, causality another: the constraint holds.
TEST(RanksClocks, CausalityBeatsTheMean) {
  Job job = JobMaker(2).job();
  Matching m = ranks::match(job);
  ASSERT_EQ(m.collectives.size(), 2U);
  // By its clock rank 1 leaves the first one 2 ms before rank 0 has come; the second ends for both at once.
  const auto set = [&](std::size_t k, Ns start0, Ns start1, Ns length) {
    auto* members = &m.members[m.collectives[k].first];
    members[0].start = start0;
    members[0].end = start0 + length;
    members[1].start = start1;
    members[1].end = start1 + length;
  };
  set(0, 10'000'000, 7'500'000, 500'000);
  set(1, 60'000'000, 60'000'000, 5'000'000);
  const Clocks c = ranks::align_clocks(job, m);
  EXPECT_TRUE(c.impossible.empty());
  EXPECT_LE(std::abs(c.clocks[1].offset + 2'000'000), 1'000);
}

TEST(RanksClocks, ContradictionsAreNamed) {
  Job job = JobMaker(2).job();
  Matching m = ranks::match(job);
  // Once rank 1 is done 5 ms before rank 0 comes, once rank 0 5 ms before rank 1: no offset explains both.
  for (std::size_t k = 0; k < 2; ++k) {
    auto* members = &m.members[m.collectives[k].first];
    const Ns at = Ns(k) * 50'000'000 + 10'000'000;
    members[k].start = at;
    members[1 - k].start = at + 5'100'000;
    members[k].end = at + 100'000;
    members[1 - k].end = at + 5'200'000;
  }
  const Clocks c = ranks::align_clocks(job, m);
  EXPECT_FALSE(c.impossible.empty());
  EXPECT_GT(c.impossible.front().by, 4'000'000);
  EXPECT_LT(std::abs(c.clocks[1].offset), 10'000'000);
}

TEST(RanksClocks, ABroadcastsRootMayLeaveEarly) {
  JobMaker m(3);
  m.name = "broadcast";
  m.kernel = "ncclDevKernel_Broadcast_RING_LL";
  Job job = m.job();
  Matching matching = ranks::match(job);
  for (const ranks::Collective& c : matching.collectives) {
    EXPECT_EQ(c.kind, ranks::CollectiveKind::kBroadcast);
    ranks::Member& root = matching.members[c.first];
    root.end = root.start + 6'000;
  }
  matching.members[matching.collectives[0].first + 1].start += 40'000;
  const Clocks c = ranks::align_clocks(job, matching);
  EXPECT_EQ(c.violations_before, 0U);
  EXPECT_TRUE(c.impossible.empty());
}

TEST(RanksClocks, AsWrittenWhenAsked) {
  JobMaker m(2);
  m.offset = {0, 5'000'000};
  const Job job = m.job();
  const Matching matching = ranks::match(job);
  const Clocks c = ranks::align_clocks(job, matching, {.align = false, .drift = false});
  EXPECT_EQ(c.clocks[1].offset, 0);
  EXPECT_FALSE(c.impossible.empty());
}

TEST(RanksClocks, RanksNobodyTiesKeepTheirs) {
  JobMaker m(3);
  m.offset = {0, 2'000'000, 7'000'000};
  std::vector<trace::Trace> traces = m.traces();
  JobMaker lonely(3);
  lonely.kernel = "gemm2";
  lonely.metadata = false;
  traces[2] = std::move(lonely.traces()[2]);
  auto job = ranks::assemble(std::move(traces));
  ASSERT_TRUE(job);
  const Aligned a = align(*job);
  EXPECT_TRUE(a.clocks.clocks[1].known);
  EXPECT_LE(std::abs(a.clocks.clocks[1].offset - 2'000'000), 100);
  EXPECT_FALSE(a.clocks.clocks[2].known);
  EXPECT_EQ(a.clocks.clocks[2].offset, 0);
}

// Real traces, whose ranks share one host's clock: what is put in is the truth.
std::vector<std::string> files_of(const char* folder_variable, const std::string& folder, const std::string& part) {
  const char* root = std::getenv(folder_variable);
  std::vector<std::string> files;
  if (root == nullptr || !std::filesystem::exists(std::string(root) + "/" + folder)) return files;
  for (const auto& f : std::filesystem::directory_iterator(std::string(root) + "/" + folder)) {
    if (f.path().filename().string().find(part) != std::string::npos) files.push_back(f.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

void recover(const std::vector<std::string>& files, Ns within, bool within_spread = false) {
  for (const int seed : {1, 2, 3}) {
    auto job = ranks::load_job(files);
    ASSERT_TRUE(job) << job.error().to_string();
    std::mt19937 random(static_cast<unsigned>(seed));
    std::uniform_int_distribution<Ns> uniform(-5'000'000, 5'000'000);
    std::vector<Ns> put_in(job->ranks.size());
    for (std::size_t r = 0; r < put_in.size(); ++r) {
      put_in[r] = uniform(random);
      job->ranks[r].trace.base_time_ns += put_in[r];
    }
    const Aligned a = align(*job);
    EXPECT_TRUE(a.clocks.impossible.empty());
    const Ns allowed = within_spread ? a.clocks.end_spread : within;
    for (std::size_t r = 0; r < put_in.size(); ++r) {
      EXPECT_LE(std::abs(a.clocks.clocks[r].offset - (put_in[r] - put_in[0])), allowed) << files[r];
    }
  }
}

TEST(RanksClocks, RecoveredOnEightRealRanks) {
  const auto files = files_of("FORETRACE_PUBLIC", "dlrm-8ranks-v100", "rank");
  if (files.empty()) GTEST_SKIP() << "FORETRACE_PUBLIC is not set";
  recover(files, 20'000);
}
TEST(RanksClocks, RecoveredOnTwoRealRanks) {
  for (const char* model : {"bert_base.fast.ddp.w2", "resnet50.fast.ddp.w2"}) {
    const auto files = files_of("FORETRACE_TRUTH", "h200-ranks", model);
    if (files.empty()) GTEST_SKIP() << "FORETRACE_TRUTH is not set";
    recover(files, 50'000);
  }
}
TEST(RanksClocks, RecoveredOnFourRealRanksWithinTheirEndSpread) {
  const auto files = files_of("FORETRACE_TRUTH", "h200-ranks", "resnet50.fast.ddp.w4");
  if (files.empty()) GTEST_SKIP() << "FORETRACE_TRUTH is not set";
  recover(files, 0, true);
}

}  // namespace
}  // namespace foretrace::test
