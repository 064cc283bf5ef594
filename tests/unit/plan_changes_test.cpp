// Changes in front of a plan, and figures that `summary` shows too: both give the same answer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/analysis/summary.hpp"
#include "measured_step.hpp"
#include "plan/plan.hpp"

namespace foretrace::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGpt = "data/h200-decoders/gpt2048@4x1024.json.gz";  // 8 blocks in BF16, causal attention
constexpr const char* kFp32 = "data/h200-clean/gpt2.base.json.gz";

Result<plan::Planner> planner_with(const analysis::Baseline& step, const std::vector<std::string>& changes) {
  plan::PlanOptions options{.network = {.fabric = "DGX-H100"}};
  options.changes = *analysis::parse_uses(changes);
  return plan::Planner::make(step, options);
}

plan::PlanPrediction predicted(const std::string& trace, const std::vector<std::string>& changes,
                               const std::string& text = "dp=2") {
  auto planner = planner_with(step_at(trace), changes);
  EXPECT_TRUE(planner) << planner.error().to_string();
  plan::PlanPrediction p = planner->predict(*plan::parse_plan(text));
  EXPECT_EQ(p.declined, "");
  return p;
}

TEST(PlanChanges, UtilisationIsThatOfTheSummary) {
  for (const char* const trace : {kGpt, kFp32}) {
    const analysis::Baseline& base = step_at(trace);
    const auto summary = analysis::summarise(*base.model.trace, trace::find_steps(*base.model.trace), {});
    ASSERT_TRUE(summary && summary->flops) << trace;
    const plan::PlanPrediction one = predicted(trace, {}, "dp=1");
    ASSERT_TRUE(one.mfu) << trace;
    EXPECT_NEAR(*one.mfu, *summary->flops->mfu(one.step), 0.002) << trace;
  }
}

TEST(PlanChanges, UtilisationIsOfTheTypesThatProductsThenComputeIn) {
  for (const char* const change : {"tf32", "amp", "gpu:to=A100-SXM4-80GB"}) {
    const plan::PlanPrediction p = predicted(kFp32, {change}, "dp=1");
    ASSERT_TRUE(p.mfu) << change;
    EXPECT_LT(*p.mfu, 1) << change;
  }
}

TEST(PlanChanges, SamplesAndTokensAreThoseOfTheChangedStep) {
  const plan::PlanPrediction as_it_is = predicted(kGpt, {});
  const plan::PlanPrediction twice = predicted(kGpt, {"batch:x=2"});
  EXPECT_EQ(twice.tokens, 2 * *as_it_is.tokens);
  EXPECT_EQ(twice.global_batch, 2 * *as_it_is.global_batch);
  EXPECT_GT(*twice.tokens_per_s, *as_it_is.tokens_per_s);
  EXPECT_GT(*twice.mfu, *as_it_is.mfu);
  const plan::PlanPrediction shorter = predicted(kGpt, {"sequence:x=0.5"});
  EXPECT_EQ(shorter.tokens, *as_it_is.tokens / 2);
  EXPECT_EQ(shorter.global_batch, as_it_is.global_batch);
  EXPECT_LT(*shorter.mfu, *as_it_is.mfu);
}

TEST(PlanChanges, AnotherGpuBringsItsMemory) {
  const auto planner = planner_with(step_at(kGpt), {"gpu:to=A100-SXM4-80GB"});
  ASSERT_TRUE(planner);
  EXPECT_EQ(planner->figures().device, "A100-SXM4-80GB");
  EXPECT_LT(planner->figures().memory_gb, 90);
}

// A search that cuts every batch into small pieces would never find what `scale --workers` answers.
TEST(PlanChanges, TheSearchTriesTheTracesOwnBatch) {
  for (const char* const trace : {"examples/resnet50-h200.json.gz", kFp32}) {
    auto planner = planner_with(step_at(trace), {});
    ASSERT_TRUE(planner) << trace;
    const plan::PlanReport found = plan::search_plans(*planner, {.gpus = 8}).value();
    ASSERT_FALSE(found.plans.empty()) << trace;
    EXPECT_GE(*found.plans.front().samples_per_s, *predicted(trace, {}, "dp=8").samples_per_s) << trace;
  }
}

TEST(PlanChanges, WorkersAreThePlansBusiness) {
  for (const char* const change : {"ddp:workers=8", "tp:size=2", "zero3:workers=4"}) {
    const auto planner = planner_with(step_at(kGpt), {change});
    ASSERT_FALSE(planner) << change;
    EXPECT_EQ(planner.error().code, ErrorCode::kUsage) << change;
    EXPECT_THAT(planner.error().message, HasSubstr("about several GPUs")) << change;
  }
}

TEST(PlanChanges, AModelWithoutBlocksIsToldWhatAnswersInstead) {
  const auto planner = planner_with(step_at("data/h200-clean/recordings/lstm_lm.base.00.json.gz"), {});
  ASSERT_FALSE(planner);
  EXPECT_EQ(planner.error().code, ErrorCode::kDeclined);
  EXPECT_THAT(planner.error().message, HasSubstr("no block of layers repeats"));
  EXPECT_THAT(planner.error().hint, HasSubstr("scale TRACE --workers"));
}

TEST(PlanChanges, WhetherAnUnknownGpuHasRoomIsNotKnown) {
  analysis::Baseline unknown = step_at(kGpt);
  unknown.model.device.reported_gb = 0;
  auto planner = planner_with(unknown, {});
  ASSERT_TRUE(planner);
  for (const char* const text : {"dp=2", "pp=2,microbatches=2"}) {
    const plan::PlanPrediction made = planner->predict(*plan::parse_plan(text));
    EXPECT_EQ(made.declined, "") << text;
    EXPECT_TRUE(made.peak_bytes) << text;
    EXPECT_FALSE(made.fits) << text;
  }
}

// ALBERT has one block for all its depth, whose recomputation must not hide how often it runs.
TEST(PlanChanges, BlocksThatShareParametersAreStillCountedWhereTheyAreRecomputed) {
  const analysis::Baseline& albert = step_at("data/h200-unseen/albert.base.json.gz");
  const auto step = [&](const std::vector<std::string>& changes) {
    const whatif::Prediction p = analysis::predict(albert, *analysis::parse_uses(changes));
    EXPECT_EQ(p.declined, "");
    return static_cast<double>(p.step);
  };
  const double recomputed = step({"checkpoint"});
  EXPECT_NEAR(step({"checkpoint", "layers:n=24"}) / recomputed, step({"layers:n=24"}) / step({}), 0.1);
  const plan::PlanPrediction p = predicted("data/h200-unseen/albert.base.json.gz", {}, "dp=1,recompute=full");
  EXPECT_GE(*p.peak_bytes, p.ranks.front().states_bytes);
}

}  // namespace
}  // namespace foretrace::test
