// Experts divided over several GPUs: volumes by their closed forms, memory as measured, and what has no experts.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "sharded_step.hpp"

namespace foretrace::test {
namespace {

using hardware::Collective;
using ::testing::HasSubstr;

// Six layers of eight experts, 768 wide, which take 2,048 tokens each (FP32 in, bf16 out).
class ExpertParallel : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* const truth = std::getenv("FORETRACE_TRUTH");
    if (truth == nullptr) GTEST_SKIP() << "FORETRACE_TRUTH is not set";
    const std::string path = std::string(truth) + "/h200-parallel/moeA.inside.solo.w2.r0.json.gz";
    if (!std::filesystem::exists(path)) GTEST_SKIP() << path << " is not there";
    trace_ = *trace::load(path);
    baseline_ = *analysis::make_baseline(trace_, std::nullopt, std::nullopt);
  }
  whatif::Prediction ask(const std::vector<std::string>& uses) { return predicted(baseline_->model, uses); }

  static inline trace::Trace trace_;
  std::optional<analysis::Baseline> baseline_;
};

TEST_F(ExpertParallel, OneGpuIsTheStep) {
  const whatif::Prediction one = ask({"ep:size=1"});
  EXPECT_EQ(one.step, ask({}).step);
  EXPECT_EQ(one.peak_bytes, ask({}).peak_bytes);
}

TEST_F(ExpertParallel, TokensGoThereAndBackInBothPasses) {
  const whatif::Prediction p = ask({"ep:size=2,reduce=0,fabric=DGX-H100"});
  ASSERT_EQ(p.declined, "");
  const double numbers = 8.0 * 2048 * 768;
  EXPECT_EQ(time_of(p, "dispatch"), 12 * cost_of(Collective::kAllToAll, 4 * numbers, 2));
  EXPECT_EQ(time_of(p, "combine"), 12 * cost_of(Collective::kAllToAll, 2 * numbers, 2));
  EXPECT_EQ(p.replicas, 2);
}

TEST_F(ExpertParallel, MemoryIsWhatWasMeasured) {
  EXPECT_NEAR(static_cast<double>(*ask({"ep:size=2,reduce=0"}).peak_bytes), 8812875776, 0.01 * 8812875776);
  EXPECT_NEAR(static_cast<double>(*ask({"ep:size=4,reduce=0"}).peak_bytes), 8020938752, 0.01 * 8020938752);
}

TEST_F(ExpertParallel, OnlyWhatAllHaveIsReduced) {
  const whatif::Prediction p = ask({"ep:size=2,fabric=DGX-H100"});
  const whatif::Prediction all = ask({"ddp:workers=2,fabric=DGX-H100"});
  EXPECT_GT(time_of(p, "all-reduce of a bucket"), 0);
  EXPECT_LT(time_of(p, "all-reduce of a bucket"), time_of(all, "all-reduce of a bucket") / 2);
}

TEST_F(ExpertParallel, TheFullestGpuSetsThePace) {
  const whatif::Prediction even = ask({"ep:size=2,reduce=0"});
  const whatif::Prediction uneven = ask({"ep:size=2,reduce=0,imbalance=1.5"});
  EXPECT_GT(uneven.step, even.step);
  EXPECT_GT(uneven.high - uneven.low, even.high - even.low);
  EXPECT_GE(*uneven.peak_bytes, *even.peak_bytes);
  EXPECT_GT(ask({"ep:size=2,reduce=0,capacity=1.25"}).communication, even.communication);
}

TEST_F(ExpertParallel, StatesAndActivationsNeverRise) {
  whatif::Prediction before = ask({"ep:size=1"});
  for (const char* const size : {"2", "4", "8"}) {
    const whatif::Prediction p = ask({std::string("ep:reduce=0,size=") + size});
    ASSERT_EQ(p.declined, "") << size;
    expect_no_more(p, before, size);
    before = p;
  }
}

TEST_F(ExpertParallel, WrongSizesAreRefused) {
  EXPECT_THAT(ask({"ep:size=3,gpus_per_node=3"}).declined, HasSubstr("8 experts cannot be divided over 3 GPUs"));
}

TEST(ExpertParallelWithout, ADenseModelIsDeclined) {
  EXPECT_THAT(predicted("h200-lengths/gpt2-today", {"ep:size=2"}).declined,
              HasSubstr("the weights of several experts"));
}

}  // namespace
}  // namespace foretrace::test
