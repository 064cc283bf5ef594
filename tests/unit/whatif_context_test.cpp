// Positions divided over several GPUs: volumes by their closed forms, what attention sees, and what cannot be divided.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sharded_step.hpp"

namespace foretrace::test {
namespace {

using hardware::Collective;
using ::testing::HasSubstr;

constexpr const char* kGpt2 = "h200-lengths/gpt2-today";  // 12 blocks, 12 heads, 768 wide, bf16 autocast

TEST(ContextParallel, OneGpuIsTheStep) {
  const whatif::Prediction base = predicted(kGpt2, {});
  const whatif::Prediction one = predicted(kGpt2, {"cp:size=1"});
  ASSERT_EQ(one.declined, "");
  EXPECT_EQ(one.step, base.step);
  EXPECT_EQ(one.peak_bytes, base.peak_bytes);
}

TEST(ContextParallel, KeysAndValuesGoRound) {
  const whatif::Prediction p = predicted(kGpt2, {"cp:size=4,reduce=0,fabric=DGX-H100"});
  ASSERT_EQ(p.declined, "");
  // Keys and values of a quarter of the positions, to three others; on the way back with their gradients, which go all the way.
  const Ns once = cost_of(Collective::kSendRecv, 2 * 2 * tokens(kGpt2) / 4 * 768, 4);
  EXPECT_EQ(time_of(p, "ring of keys and values"), 12 * 2 * 3 * once);
  EXPECT_EQ(time_of(p, "ring of their gradients"), 12 * 4 * once);
}

TEST(ContextParallel, KeysAndValuesAreGathered) {
  const whatif::Prediction p = predicted(kGpt2, {"cp:size=2,kind=gather,reduce=0,fabric=DGX-H100"});
  ASSERT_EQ(p.declined, "");
  const double bytes = 2 * 2 * tokens(kGpt2) * 768;
  EXPECT_EQ(time_of(p, "keys and values of all positions"), 24 * cost_of(Collective::kAllGather, bytes, 2));
  EXPECT_EQ(time_of(p, "gradients of keys and values"), 12 * cost_of(Collective::kReduceScatter, bytes, 2));
}

TEST(ContextParallel, HeadsAreExchanged) {
  const whatif::Prediction p = predicted(kGpt2, {"cp:size=2,kind=ulysses,reduce=0,fabric=DGX-H100"});
  ASSERT_EQ(p.declined, "");
  const Ns one = cost_of(Collective::kAllToAll, 2 * tokens(kGpt2) / 2 * 768, 2);
  EXPECT_EQ(collectives_named(p, "context parallel"), 12 * 8);
  EXPECT_EQ(p.communication, 12 * 8 * one);
}

TEST(ContextParallel, KernelsAndMemoryNeverGrowWithTheSize) {
  for (const char* const kind : {"ulysses", "gather", "ring"}) {
    whatif::Prediction before = predicted(kGpt2, {"cp:size=1"});
    for (const char* const size : {"2", "4"}) {
      const whatif::Prediction p = predicted(kGpt2, {std::string("cp:reduce=0,kind=") + kind + ",size=" + size});
      ASSERT_EQ(p.declined, "") << kind << size;
      expect_no_more(p, before, std::string(kind) + size);
      before = p;
    }
  }
}

TEST(ContextParallel, GradientsAreReducedUnlessAskedNotTo) {
  EXPECT_GT(collectives_named(predicted(kGpt2, {"cp:size=2"}), "all-reduce of a bucket"), 0);
  EXPECT_EQ(collectives_named(predicted(kGpt2, {"cp:size=2,reduce=0"}), "all-reduce of a bucket"), 0);
}

TEST(ContextParallel, StandsForOneReplica) {
  const whatif::Prediction p = predicted(kGpt2, {"cp:size=2", "ddp:workers=4"});
  ASSERT_EQ(p.declined, "");
  EXPECT_EQ(p.workers, 8);
  EXPECT_EQ(p.replicas, 4);
  EXPECT_EQ(p.samples, 1);
}

TEST(ContextParallel, WrongSizesAreRefused) {
  EXPECT_THAT(predicted(kGpt2, {"cp:size=3,gpus_per_node=3"}).declined, HasSubstr("cannot be divided over 3 GPUs"));
  EXPECT_THAT(predicted(kGpt2, {"cp:size=8,kind=ulysses"}).declined, HasSubstr("12 heads"));
  EXPECT_THAT(predicted("h200-clean/gpt2", {"cp:size=2"}).declined, HasSubstr("no fused attention"));
  EXPECT_THAT(predicted("h200-clean/resnet50", {"cp:size=2"}).declined, HasSubstr("cp:"));
  for (const char* const wrong : {"cp", "cp:size=2,kind=star", "cp:size=0"})
    EXPECT_FALSE(whatif::parse_use(wrong)) << wrong;
}

TEST(ContextParallel, GoesWithOtherChanges) {
  for (const std::vector<std::string>& uses :
       std::vector<std::vector<std::string>>{{"flash-attention", "cp:size=2"},
                                             {"checkpoint", "cp:size=2"},
                                             {"layers:n=24", "cp:size=2"},
                                             {"cp:size=2,reduce=0", "fsdp:workers=4"},
                                             {"tp:size=2", "cp:size=2,reduce=0"}}) {
    const bool fused = uses.front() == "flash-attention";
    const whatif::Prediction p = predicted(fused ? "h200-clean/gpt2" : kGpt2, uses);
    ASSERT_EQ(p.declined, "") << uses[0] << " " << uses[1];
    EXPECT_GT(p.communication, 0);
  }
}

}  // namespace
}  // namespace foretrace::test
