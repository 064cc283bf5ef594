// One replica over several GPUs: volumes by their closed forms, sizes that divide, and what cannot be divided.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "hardware/collective.hpp"
#include "measured_step.hpp"

namespace foretrace::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGpt2 = "h200-lengths/gpt2-today";  // 12 blocks, 12 heads, 768 wide, bf16 autocast

std::int64_t collectives_named(const whatif::Prediction& p, std::string_view name) {
  std::int64_t n = 0;
  for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
    const bool collective = p.graph.kind[t] == graph::TaskKind::kCollective;
    n += collective && p.graph.task_name(t).find(name) != std::string_view::npos ? 1 : 0;
  }
  return n;
}

Ns cost_of(hardware::Collective kind, double bytes, int ranks) {
  const hardware::FabricCollectives model(hardware::fabric_from("DGX-H100").value());
  return model.cost({kind, bytes, ranks}).ns;
}

// Rows of tokens in the step, from what its embedding looks up.
double tokens(const std::string& name) {
  const whatif::Model& m = measured_step(name).model;
  std::int64_t most = 0;
  for (const work::Work& w : m.works.rows) {
    if (const auto* g = std::get_if<work::Gemm>(&w.kind); g != nullptr && !w.backward && g->batch == 1)
      most = std::max(most, g->m);
  }
  return static_cast<double>(most);
}

TEST(TensorParallel, OneGpuIsTheStep) {
  const whatif::Prediction base = predicted(kGpt2, {});
  const whatif::Prediction one = predicted(kGpt2, {"tp:size=1"});
  ASSERT_EQ(one.declined, "");
  EXPECT_EQ(one.step, base.step);
  EXPECT_EQ(one.peak_bytes, base.peak_bytes);
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
    EXPECT_LE(*p.peak_bytes, *before.peak_bytes) << size;
    EXPECT_LE(p.peak_parts->activations, before.peak_parts->activations) << size;
    EXPECT_LE(p.peak_parts->optimizer_states, before.peak_parts->optimizer_states) << size;
    EXPECT_LE(p.peak_parts->parameters, before.peak_parts->parameters) << size;
    before = p;
  }
}

TEST(TensorParallel, DividedVocabularySavesMore) {
  const whatif::Prediction whole = predicted(kGpt2, {"tp:size=4,vocab=replicated"});
  const whatif::Prediction divided = predicted(kGpt2, {"tp:size=4"});
  EXPECT_LT(divided.gpu_time, whole.gpu_time);
  EXPECT_LT(*divided.peak_bytes, *whole.peak_bytes);
}

TEST(TensorParallel, BesideTheWeightsGradientIsNoSlower) {
  EXPECT_LE(predicted("h200-lengths/llama_w4-today", {"tp:size=2,async=1"}).step,
            predicted("h200-lengths/llama_w4-today", {"tp:size=2"}).step);
}

TEST(TensorParallel, WrongSizesAreRefused) {
  EXPECT_THAT(predicted(kGpt2, {"tp:size=8"}).declined, HasSubstr("12 heads cannot be divided over 8 GPUs"));
  EXPECT_THAT(predicted("h200-lengths/llama_gqa-today", {"tp:size=2"}).declined, HasSubstr("heads of keys"));
  for (const char* const wrong : {"tp", "tp:size=0", "tp:size=1.5", "tp:size=-2", "tp:size=2,vocab=half", "tp:size=x"})
    EXPECT_FALSE(whatif::parse_use(wrong)) << wrong;
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
  EXPECT_EQ(predicted("h200-clean/gpt2", {"tp:size=2", "ddp:workers=4"}).workers, 8);
}

}  // namespace
}  // namespace foretrace::test
