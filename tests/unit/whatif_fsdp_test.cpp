// Fully sharded data parallel as torch has it today: types, groups that divide the model, passes without reduction, memory.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sharded_step.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::test {
namespace {

using hardware::Collective;
using ::testing::HasSubstr;

constexpr const char* kGpt2 = "h200-lengths/gpt2-today";  // 12 blocks, bf16 autocast

whatif::Prediction sharded(const std::string& more) {
  return predicted(kGpt2, {"fsdp:workers=8,fabric=DGX-H100" + more});
}

TEST(FullySharded, HalfParametersAreGatheredAndComputedWith) {
  const whatif::Prediction as_is = sharded("");
  const whatif::Prediction half = sharded(",param_dtype=bf16,reduce_dtype=fp32");
  ASSERT_EQ(half.declined, "");
  EXPECT_LT(time_of(half, "all-gather"), time_of(as_is, "all-gather"));
  EXPECT_EQ(time_of(half, "reduce-scatter"), time_of(as_is, "reduce-scatter"));
  EXPECT_LT(time_of(sharded(",param_dtype=bf16"), "reduce-scatter"), time_of(as_is, "reduce-scatter"));
  // Neither weights nor inputs are cast any more, and norms and residuals move half as much.
  EXPECT_LT(static_cast<double>(half.gpu_time), 0.97 * static_cast<double>(as_is.gpu_time));
  EXPECT_LT(*half.peak_bytes, *as_is.peak_bytes);
}

TEST(FullySharded, ListsOfParametersAreCastBeforeTheyTravel) {
  const auto calls = [](const whatif::Prediction& p) {
    Ns all = 0;
    for (std::uint32_t t = 0; t < p.graph.size(); ++t) {
      if (p.graph.task_name(t).starts_with("FSDP: gather parameters")) all += p.graph.cost[t];
    }
    return all;
  };
  const whatif::Model& m = measured_step(kGpt2).model;
  // Twelve blocks of a dozen tensors, gathered in both passes, at the speed of the faster one.
  const Ns tensors = 2 * 12 * 12 *
                     std::min(m.cpu_time(m.host.update.list_tensor_us, graph::Phase::kForward),
                              m.cpu_time(m.host.update.list_tensor_us, graph::Phase::kBackward));
  EXPECT_GE(calls(sharded(",param_dtype=bf16")), calls(sharded("")) + tensors);
}

TEST(FullySharded, TwiceTheSamplesHoldTwiceTheActivationsInHalfPrecision) {
  const whatif::Model& m = step_at("data/h200-parallel/lmB.inside.solo.w2.r0.json.gz").model;
  const auto activations = [&](std::vector<std::string> uses) {
    uses.emplace_back("fsdp:workers=2,fabric=DGX-H100,param_dtype=bf16");
    const memory::Composition parts = *predicted(m, uses).peak_parts;
    return static_cast<double>(parts.activations + parts.other);
  };
  // What a batch of half precision takes is no FP32 tensor of the traced one.
  EXPECT_GT(activations({"batch:x=2"}), 1.85 * activations({}));
}

TEST(FullySharded, KeptUnitsAreGatheredOnce) {
  const whatif::Prediction twice = sharded("");
  const whatif::Prediction once = sharded(",reshard=0");
  EXPECT_EQ(collectives_named(twice, "all-gather of a unit"), 25);  // 12 blocks twice, the root once
  EXPECT_EQ(collectives_named(once, "all-gather of a unit"), 13);
  EXPECT_GT(*once.peak_bytes, *twice.peak_bytes);
}

TEST(FullySharded, GroupsDivideTheModelAndReplicasReduce) {
  const auto elements = static_cast<double>(whatif::find_gradients(measured_step(kGpt2).model)->elements);
  const whatif::Prediction p = predicted(kGpt2, {"fsdp:workers=32,shard=8,fabric=DGX-H100"});
  ASSERT_EQ(p.declined, "");
  EXPECT_EQ(p.workers, 32);
  EXPECT_EQ(time_of(p, "all-gather of a unit"), time_of(sharded(""), "all-gather of a unit"));
  EXPECT_EQ(collectives_named(p, "all-reduce of shards"), 13);
  EXPECT_GT(elements, 0);
  EXPECT_EQ(p.peak_bytes, sharded("").peak_bytes);
  EXPECT_THAT(predicted(kGpt2, {"fsdp:workers=32,shard=12"}).declined, HasSubstr("groups of 12"));
}

TEST(FullySharded, OnlyTheLastPassReduces) {
  const whatif::Prediction p = predicted(kGpt2, {"accumulate:n=4", "fsdp:workers=8,fabric=DGX-H100"});
  ASSERT_EQ(p.declined, "");
  EXPECT_EQ(collectives_named(p, "reduce-scatter of a unit"), 13);
  EXPECT_EQ(collectives_named(p, "all-gather of a unit"), 4 * 25);
}

TEST(FullySharded, StatesAndActivationsNeverRise) {
  whatif::Prediction before = predicted(kGpt2, {"fsdp:workers=2"});
  for (const char* const workers : {"4", "8", "64"}) {
    const whatif::Prediction p = predicted(kGpt2, {std::string("fsdp:workers=") + workers});
    expect_no_more(p, before, workers);
    before = p;
  }
}

TEST(FullySharded, ShardsOnTheHostLeaveTheGpu) {
  const whatif::Prediction on_host = sharded(",cpu_offload=1");
  ASSERT_EQ(on_host.declined, "");
  EXPECT_LT(*on_host.peak_bytes, *sharded("").peak_bytes);
  EXPECT_EQ(on_host.peak_parts->optimizer_states, 0);
  EXPECT_THAT(on_host.not_modelled, testing::Contains(HasSubstr("the update on the host")));
}

TEST(FullySharded, CodeSaysWhatWasAsked) {
  const whatif::Use use = *whatif::parse_use("fsdp:param_dtype=bf16,reduce_dtype=fp32,reshard=0");
  EXPECT_THAT(use.whatif->code_for(use.parameters, true),
              HasSubstr("MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)"));
  EXPECT_THAT(use.whatif->code_for(use.parameters, true), HasSubstr("reshard_after_forward=False"));
}

TEST(Recomputation, SelectiveKeepsProducts) {
  const whatif::Prediction base = predicted(kGpt2, {});
  const whatif::Prediction full = predicted(kGpt2, {"checkpoint"});
  const whatif::Prediction selective = predicted(kGpt2, {"checkpoint:mode=selective"});
  const whatif::Prediction some = predicted(kGpt2, {"checkpoint:blocks=6"});
  EXPECT_LT(selective.gpu_time, full.gpu_time);
  EXPECT_GT(selective.gpu_time, base.gpu_time);
  EXPECT_LT(*selective.peak_bytes, *base.peak_bytes);
  EXPECT_GT(*selective.peak_bytes, *full.peak_bytes);
  EXPECT_NEAR(static_cast<double>(some.gpu_time - base.gpu_time),
              0.5 * static_cast<double>(full.gpu_time - base.gpu_time),
              0.05 * static_cast<double>(full.gpu_time - base.gpu_time));
  EXPECT_EQ(predicted(kGpt2, {"checkpoint:blocks=12"}).gpu_time, full.gpu_time);
}

}  // namespace
}  // namespace foretrace::test
