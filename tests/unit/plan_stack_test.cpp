// Shardings as what-ifs, `pp` among them: the same answer as the plan they are, in any order.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "foretrace/report/report.hpp"
#include "measured_step.hpp"
#include "plan/stack.hpp"
#include "search/evaluate.hpp"

namespace foretrace::test {
namespace {

using ::testing::HasSubstr;
using Texts = std::vector<std::string>;

constexpr const char* kGpt = "data/h200-decoders/gpt2048@4x1024.json.gz";      // 8 blocks, 4 samples
constexpr const char* kMixtral = "data/h200-decoders/mixtral@1x4096.json.gz";  // 2 blocks of 8 experts
constexpr const char* kFabric = "DGX-H200";

whatif::Prediction asked(const analysis::Baseline& base, const Texts& texts) {
  const auto uses = analysis::parse_uses(texts);
  EXPECT_TRUE(uses) << uses.error().to_string();
  return plan::predict(base, *uses);
}
whatif::Prediction asked(const std::string& trace, const Texts& texts) { return asked(step_at(trace), texts); }

struct Case {
  const char* trace;
  Texts stack;
  std::string plan;
  Texts changes = {};
  std::optional<int> layers = {};
};

plan::PlanPrediction as_plan(const Case& c) {
  plan::PlanOptions options{.network = {.fabric = kFabric}, .layers = c.layers};
  options.changes = *analysis::parse_uses(c.changes);
  auto planner = plan::Planner::make(step_at(c.trace), options);
  EXPECT_TRUE(planner) << planner.error().to_string();
  plan::PlanPrediction p = planner->predict(*plan::parse_plan(c.plan), plan::Planner::Actions::kDropped);
  EXPECT_EQ(p.declined, "") << c.plan;
  return p;
}

void expect_same(const whatif::Prediction& p, const plan::PlanPrediction& plan, const std::string& what) {
  EXPECT_EQ(p.declined, "") << what;
  EXPECT_EQ(p.step, plan.step) << what;
  EXPECT_EQ(p.low, plan.low) << what;
  EXPECT_EQ(p.high, plan.high) << what;
  EXPECT_EQ(p.peak_bytes, plan.peak_bytes) << what;
  EXPECT_EQ(p.fits, plan.fits) << what;
  EXPECT_EQ(p.workers, plan.workers) << what;
  EXPECT_EQ(p.replicas, plan.plan.dp) << what;
  EXPECT_EQ(p.exposed_communication, plan.exposed_communication) << what;
  ASSERT_TRUE(p.pipeline) << what;
  EXPECT_EQ(p.pipeline->gpus, plan.plan.pp) << what;
  EXPECT_EQ(p.pipeline->microbatches, plan.microbatches) << what;
  EXPECT_EQ(p.pipeline->bubble, plan.bubble) << what;
  EXPECT_EQ(p.pipeline->tokens, plan.tokens) << what;
  EXPECT_EQ(p.pipeline->tokens_per_s, plan.tokens_per_s) << what;
}

TEST(PlanStack, AStackOfShardingsInAnyOrderIsItsPlan) {
  const Case cases[] = {
      {kGpt, {"pp:stages=4,microbatches=4,fabric=DGX-H200"}, "pp=4,microbatches=4"},
      {kGpt,
       {"pp:stages=2,microbatches=4,schedule=gpipe,outputs=kept,fabric=DGX-H200", "tp:size=2"},
       "tp=2,pp=2,microbatches=4,schedule=gpipe,outputs=kept"},
      {kGpt,
       {"cp:size=2,kind=ring", "ddp:workers=4,fabric=DGX-H200", "pp:stages=2,microbatch=1"},
       "cp=2,pp=2,dp=4,microbatch=1"},
      {kGpt,
       {"checkpoint", "fsdp:workers=4,param_dtype=bf16,reduce_dtype=fp32,reshard=0,shard=2,fabric=DGX-H200",
        "pp:stages=2,microbatches=2,schedule=interleaved,chunks=4", "tp:size=2,sequence=1,vocab=replicated"},
       "tp=2,pp=2,fsdp=2,dp=4,param-dtype=bf16,reduce-dtype=fp32,reshard=0,microbatches=2,schedule=interleaved,chunks="
       "4,"
       "sequence=1,vocab=replicated",
       {"checkpoint"}},
      {kGpt,
       {"bucket:mb=50,workers=2,fabric=DGX-H200", "pp:stages=2,microbatches=4,blocks=5|3", "cpu:x=2"},
       "pp=2,dp=2,bucket-mb=52.4288,microbatches=4,stages=5|3",
       {"cpu:x=2"}},
      {kGpt,
       {"zero1:workers=8,fabric=DGX-H200", "pp:stages=4,microbatches=4,balance=time", "layers:n=32"},
       "pp=4,dp=8,zero=1,microbatches=4,balance=time",
       {},
       32},
      {kGpt,
       {"gpu:to=A100-SXM4-80GB", "pp:stages=2,microbatches=4,schedule=zb1p,fabric=DGX-H200"},
       "pp=2,microbatches=4,schedule=zb1p",
       {"gpu:to=A100-SXM4-80GB"}},
      {kMixtral,
       {"ep:size=2,imbalance=1.5", "pp:stages=2,microbatches=1,fabric=DGX-H200", "ddp:workers=2"},
       "ep=2,dp=4,pp=2,microbatches=1,imbalance=1.5"}};
  for (const Case& c : cases) {
    const plan::PlanPrediction plan = as_plan(c);
    Texts stack = c.stack;
    std::sort(stack.begin(), stack.end());
    do {
      const std::string what = fmt::format("{}", fmt::join(stack, " + "));
      expect_same(asked(c.trace, stack), plan, what);
    } while (stack.size() < 4 && std::next_permutation(stack.begin(), stack.end()));
  }
}

TEST(PlanStack, TheAnswerHasTheFiguresOfEveryOther) {
  const whatif::Prediction p = asked(kGpt, {"tp:size=2", "pp:stages=2,microbatches=2"});
  ASSERT_EQ(p.declined, "");
  EXPECT_EQ(p.whatif, "tp:size=2 + pp:stages=2,microbatches=2");
  EXPECT_GT(p.speedup, 1);
  EXPECT_GT(p.gpu_time, 0);
  EXPECT_LE(p.gpu_time, p.step);
  EXPECT_GE(*p.reserved_bytes, *p.peak_bytes);
  EXPECT_EQ(p.samples, 1);
  EXPECT_EQ(p.workers, 4);
  EXPECT_EQ(p.replicas, 1);
  EXPECT_EQ(p.pipeline->tokens, 4 * 1024);
  EXPECT_FALSE(p.band.empty());
  EXPECT_THAT(fmt::format("{}", fmt::join(p.not_modelled, "; ")), HasSubstr("the network was not named: DGX-H100"));
  const report::WhatIfReport r{step_at(kGpt).figures, {p}, {}};
  EXPECT_THAT(report::to_json(r), HasSubstr(R"("pipeline": {"gpus": 2, "microbatches": 2, "bubble_ms": )"));
  EXPECT_THAT(report::to_text(r, {}), HasSubstr("4,096 tokens"));
}

// All layers' kernels are on some GPU: together they have what one GPU has.
TEST(PlanStack, TheGpusShareTheKernels) {
  const whatif::Prediction one = asked(kGpt, {"batch:x=1"});
  const whatif::Prediction two = asked(kGpt, {"pp:stages=2,microbatches=1,balance=time"});
  EXPECT_GE(2 * two.gpu_time, one.gpu_time * 95 / 100);
  EXPECT_LE(two.gpu_time, one.gpu_time * 2 / 3);
}

TEST(PlanStack, OneStageIsTheStep) {
  const whatif::Prediction one = asked(kGpt, {"pp:stages=1"});
  EXPECT_EQ(one.declined, "");
  EXPECT_EQ(one.step, asked(kGpt, {}).step);
  EXPECT_FALSE(one.pipeline);
}

TEST(PlanStack, WhatAPipelineDoesNotGoWithIsDeclined) {
  const auto why = [](Texts stack) {
    stack.emplace_back("pp:stages=2,microbatches=4");
    const whatif::Prediction p = asked(kGpt, stack);
    EXPECT_EQ(p.step, 0);
    return p.declined;
  };
  EXPECT_THAT(why({"ps:servers=2"}), HasSubstr("what ps does to a pipeline is not known; tp, cp"));
  EXPECT_THAT(why({"bandwidth:x=2"}), HasSubstr("what bandwidth does"));
  EXPECT_THAT(why({"accumulate:n=2"}), HasSubstr("pp:microbatches= says how many"));
  EXPECT_THAT(why({"tp:size=2", "tp:size=2"}), HasSubstr("tp stands in the stack twice"));
  EXPECT_THAT(why({"ddp:workers=2", "fsdp:workers=2"}), HasSubstr("several ways"));
  EXPECT_THAT(why({"ddp:workers=2,compress=fp16"}), HasSubstr("ddp:compress= is not known"));
  EXPECT_THAT(why({"tp:size=2,fabric=DGX-H100", "ddp:workers=2,fabric=DGX-A100"}), HasSubstr("one network"));
  EXPECT_THAT(why({"cp:size=2,reduce=0", "ddp:workers=2"}), HasSubstr("reduce=0"));
  EXPECT_THAT(why({"tp:size=3"}), HasSubstr("cannot be divided over 3"));
  EXPECT_THAT(why({"layers:n=1"}), HasSubstr("1 blocks do not fill 2 stages"));
}

TEST(PlanStack, AStrategyIsTheSameStack) {
  const analysis::Baseline& base = step_at(kGpt);
  const Texts stack{"cpu:x=2", "tp:size=2", "pp:stages=2,microbatches=4"};
  search::Strategy strategy;
  strategy.whatifs = stack;
  const whatif::Prediction whole = asked(base, stack);
  const whatif::Prediction planned = search::predict_strategy(base, strategy);
  EXPECT_EQ(planned.declined + whole.declined, "");
  EXPECT_EQ(planned.step, whole.step);
  EXPECT_EQ(planned.high, whole.high);
  EXPECT_EQ(planned.peak_bytes, whole.peak_bytes);
  const search::Optimized explained = search::explain_strategy(base, strategy);
  EXPECT_EQ(explained.prediction.step, whole.step);
  ASSERT_EQ(explained.parts.size(), 3U);
  EXPECT_EQ(explained.parts[1].without, asked(base, {"cpu:x=2", "pp:stages=2,microbatches=4"}).step);
}

// Where the changed step itself is shown there is none: the GPUs do different work.
TEST(PlanStack, WhereOneGpuIsShownTheReasonIsGiven) {
  const analysis::Baseline& base = step_at(kGpt);
  EXPECT_THAT(analysis::predict(base, *analysis::parse_uses({"pp:stages=2,microbatches=4"})).declined,
              HasSubstr("pp: the stages of a pipeline do different work"));
}

TEST(PlanStack, UsesAreCheckedBeforeATraceIsRead) {
  const auto wrong = [](const std::string& use) {
    const Result<whatif::Use> parsed = whatif::parse_use(use);
    return parsed ? Error{} : parsed.error();
  };
  EXPECT_THAT(wrong("pp").message, HasSubstr("pp needs stages"));
  EXPECT_THAT(wrong("pp:stages=2.5").message, HasSubstr("whole number"));
  EXPECT_THAT(wrong("pp:stages=4,microbatchs=8").hint, HasSubstr("did you mean 'microbatches'"));
  EXPECT_THAT(wrong("pp:stages=4,schedule=gpip").hint, HasSubstr("did you mean 'gpipe'"));
  EXPECT_THAT(wrong("pp:stages=4,microbatches=9,schedule=interleaved").message, HasSubstr("equal rounds"));
  EXPECT_THAT(wrong("pp:stages=2,blocks=5|x").message, HasSubstr("numbers of blocks"));
  // Another spelling of another what-if begins alike.
  EXPECT_EQ(whatif::parse_use("pp:balance")->whatif->name, "stage-balance");
  EXPECT_EQ(whatif::parse_use("pp:balance=time,stages=2")->whatif->name, "pp");
}

}  // namespace
}  // namespace foretrace::test
