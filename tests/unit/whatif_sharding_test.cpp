// One replica over several GPUs: volumes by their closed forms, sizes that divide, and what cannot be divided.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sharded_step.hpp"

namespace foretrace::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGpt2 = "h200-lengths/gpt2-today";  // 12 blocks, 12 heads, 768 wide, bf16 autocast

TEST(TensorParallel, OneGpuIsTheStep) {
  const whatif::Prediction base = predicted(kGpt2, {});
  const whatif::Prediction one = predicted(kGpt2, {"tp:size=1"});
  ASSERT_EQ(one.declined, "");
  EXPECT_EQ(one.step, base.step);
  EXPECT_EQ(one.peak_bytes, base.peak_bytes);
}

TEST(TensorParallel, AStackOfMoreGpusThanThereAreIsDeclined) {
  const whatif::Prediction most = predicted(kGpt2, {"tp:size=4,fabric=DGX-H100", "ddp:workers=4096,fabric=NDR"});
  EXPECT_EQ(most.declined, "");
  EXPECT_EQ(most.workers, 16384);
  EXPECT_EQ(most.replicas, 4096);
  for (const char* const next : {"ddp:workers=8192,fabric=NDR", "fsdp:workers=16384,fabric=NDR"}) {
    const whatif::Prediction p = predicted(kGpt2, {"tp:size=4,fabric=DGX-H100", next});
    EXPECT_THAT(p.declined, HasSubstr("more than the limit of 16384")) << next;
  }
}

TEST(TensorParallel, EveryBlockReducesTwiceInEachPass) {
  const whatif::Prediction p = predicted(kGpt2, {"tp:size=2,vocab=replicated,fabric=DGX-H100"});
  ASSERT_EQ(p.declined, "");
  EXPECT_EQ(collectives_named(p, "sum of a row product"), 24);
  EXPECT_EQ(collectives_named(p, "sum of the input's gradient"), 24);
  // Results are bf16, what the norms hand over under autocast is FP32.
  const double elements = tokens(kGpt2) * 768;
  const Ns all = 24 * cost_of(hardware::Collective::kAllReduce, 2 * elements, 2) +
                 24 * cost_of(hardware::Collective::kAllReduce, 4 * elements, 2);
  EXPECT_NEAR(static_cast<double>(p.communication), static_cast<double>(all), 0.01 * static_cast<double>(all));
}

TEST(TensorParallel, SequenceParallelGathersAndScatters) {
  const whatif::Prediction p = predicted(kGpt2, {"tp:size=2,sequence=1,vocab=replicated,fabric=DGX-H100"});
  ASSERT_EQ(p.declined, "");
  EXPECT_EQ(collectives_named(p, "input of all positions"), 24);
  EXPECT_EQ(collectives_named(p, "input again"), 24);
  EXPECT_EQ(collectives_named(p, "gradient of all positions"), 24);
  const whatif::Prediction plain = predicted(kGpt2, {"tp:size=2,vocab=replicated,fabric=DGX-H100"});
  EXPECT_LT(p.gpu_time, plain.gpu_time);
  EXPECT_LT(*p.peak_bytes, *plain.peak_bytes);
}

TEST(TensorParallel, KernelsAndMemoryNeverGrowWithTheSize) {
  whatif::Prediction before = predicted(kGpt2, {"tp:size=1"});
  for (const char* const size : {"2", "4", "6", "12"}) {
    const whatif::Prediction p = predicted(kGpt2, {std::string("tp:gpus_per_node=0,size=") + size});
    ASSERT_EQ(p.declined, "") << size;
    EXPECT_LT(p.gpu_time, before.gpu_time) << size;
    expect_no_more(p, before, size);
    before = p;
  }
}

TEST(TensorParallel, DividedVocabularySavesMore) {
  const whatif::Prediction whole = predicted(kGpt2, {"tp:size=4,vocab=replicated"});
  const whatif::Prediction divided = predicted(kGpt2, {"tp:size=4"});
  EXPECT_LT(divided.gpu_time, whole.gpu_time);
  EXPECT_LT(*divided.peak_bytes, *whole.peak_bytes);
}

// Autograd computes the weight's gradient first, and a compiler leaves no kernel that waits for the sum: both leave something to overlap.
TEST(TensorParallel, OverlappingTheWeightsGradientIsFaster) {
  EXPECT_LE(predicted("h200-lengths/llama_w4-today", {"tp:size=2,async=1"}).step,
            predicted("h200-lengths/llama_w4-today", {"tp:size=2"}).step);
  const whatif::Model& decoder = step_at("data/h200-decoders/llama8b@1x8192.json.gz").model;
  for (const int sequence : {0, 1}) {
    for (const bool compiled : {false, true}) {
      const auto step = [&](int async) {
        std::vector<std::string> uses = {
            fmt::format("tp:size=8,fabric=DGX-H100,sequence={},async={}", sequence, async)};
        if (compiled) uses.insert(uses.begin(), "compile");
        return static_cast<double>(predicted(decoder, uses).step);
      };
      const double faster = step(1) / step(0);
      EXPECT_LT(faster, 0.98) << sequence << compiled;
      EXPECT_GT(faster, 0.85) << sequence << compiled;
    }
  }
}

TEST(TensorParallel, WrongSizesAreRefused) {
  EXPECT_THAT(predicted(kGpt2, {"tp:size=8"}).declined, HasSubstr("12 heads cannot be divided over 8 GPUs"));
  EXPECT_THAT(predicted("h200-lengths/llama_gqa-today", {"tp:size=2"}).declined, HasSubstr("heads of keys"));
  for (const char* const wrong : {"tp", "tp:size=0", "tp:size=1.5", "tp:size=-2", "tp:size=2,vocab=half", "tp:size=x"})
    EXPECT_FALSE(whatif::parse_use(wrong)) << wrong;
}

TEST(TensorParallel, FewHeadsOfKeysAreRepeatedOrRefused) {
  // 12 heads, 2 of them of keys and values where they are shared.
  EXPECT_EQ(predicted(kGpt2, {"tp:size=4,kv=refused"}).declined, "");
  EXPECT_THAT(predicted("h200-lengths/llama_gqa-today", {"tp:size=2,kv=refused"}).declined, HasSubstr("heads of keys"));
}

TEST(TensorParallel, NormsOfPositionsAreSummed) {
  const whatif::Prediction summed = predicted(kGpt2, {"tp:size=2,sequence=1"});
  const whatif::Prediction apart = predicted(kGpt2, {"tp:size=2,sequence=1,reduce=0"});
  EXPECT_GT(collectives_named(summed, "all-reduce of a bucket"), 0);
  EXPECT_EQ(collectives_named(apart, "all-reduce of a bucket"), 0);
  EXPECT_EQ(collectives_named(predicted(kGpt2, {"tp:size=2"}), "all-reduce of a bucket"), 0);
}

TEST(TensorParallel, WhatABlockReducesRunsAgainWithIt) {
  const auto sums = [](const std::vector<std::string>& uses) {
    return collectives_named(predicted(kGpt2, uses), "sum of a row product");
  };
  const std::int64_t once = sums({"tp:size=2"});
  EXPECT_GT(sums({"checkpoint", "tp:size=2"}), once);
  EXPECT_GT(sums({"tp:size=2", "checkpoint"}), once);
  EXPECT_EQ(sums({"checkpoint:mode=selective", "tp:size=2"}), once);
  EXPECT_EQ(sums({"tp:size=2", "checkpoint:mode=selective"}), once);
}

TEST(TensorParallel, WhatHasNoHeadsIsDeclined) {
  for (const char* const name : {"h200-clean/resnet50", "h200-clean/mlp", "h200-clean/lstm_lm@8"})
    EXPECT_THAT(predicted(name, {"tp:size=2"}).declined, HasSubstr("no attention")) << name;
  EXPECT_THAT(predicted("h200-clean/gpt2-compiled", {"tp:size=2"}).declined, HasSubstr("compiled"));
}

TEST(TensorParallel, GoesWithOtherChanges) {
  for (const std::vector<std::string>& uses : std::vector<std::vector<std::string>>{{"amp:dtype=bf16", "tp:size=2"},
                                                                                    {"batch:x=2", "tp:size=2"},
                                                                                    {"tp:size=2", "batch:x=2"},
                                                                                    {"layers:n=24", "tp:size=2"},
                                                                                    {"flash-attention", "tp:size=2"},
                                                                                    {"checkpoint", "tp:size=2"},
                                                                                    {"tp:size=2", "ddp:workers=4"}}) {
    const whatif::Prediction p = predicted("h200-clean/gpt2", uses);
    ASSERT_EQ(p.declined, "") << uses[0] << " " << uses[1];
    EXPECT_GT(p.step, 0);
    EXPECT_GT(p.communication, 0) << uses[0] << " " << uses[1];
  }
  // Twice the blocks send twice as much; half of the gradients are reduced over the replicas.
  EXPECT_EQ(collectives_named(predicted("h200-clean/gpt2", {"layers:n=24", "tp:size=2"}), "sum of a row product"), 48);
  const whatif::Prediction both = predicted("h200-clean/gpt2", {"tp:size=2", "ddp:workers=4"});
  EXPECT_EQ(both.workers, 8);
  EXPECT_EQ(both.replicas, 4);
}

}  // namespace
}  // namespace foretrace::test
