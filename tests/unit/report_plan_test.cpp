// Plans as JSON and as a page: passes of a pipeline, what its GPUs do with the step, the search by sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "measured_step.hpp"
#include "plan/plan.hpp"
#include "report/plan.hpp"
#include "report/plan_reader.hpp"

namespace foretrace::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kGpt2 = "h200-lengths/gpt2-today";  // 12 blocks

plan::Planner planner_for_gpt2() {
  auto made = plan::Planner::make(measured_step(kGpt2), {.network = {.fabric = "DGX-H100"}});
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

plan::PlanReport report_of(plan::Planner& planner, const std::vector<std::string>& texts) {
  plan::PlanReport r;
  r.verb = "scale";
  r.figures = planner.figures();
  for (const std::string& text : texts) r.plans.push_back(planner.predict(*plan::parse_plan(text)));
  return r;
}

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++n;
  return n;
}

void expect_full(const analysis::Baseline& step) {
  auto planner = plan::Planner::make(step, {.network = {.fabric = "DGX-H100"}});
  ASSERT_TRUE(planner) << planner.error().to_string();
  for (const char* const text : {"pp=4,microbatches=4", "pp=2,microbatches=4,schedule=interleaved,chunks=2",
                                 "pp=4,microbatches=8,schedule=zb1p", "pp=2,microbatches=4,schedule=gpipe"}) {
    const plan::PlanPrediction p = planner->predict(*plan::parse_plan(text));
    ASSERT_EQ(p.declined, "") << text;
    Ns drained = 0;
    for (const plan::PlanAction& a : p.actions) drained = std::max(drained, a.end);
    Ns least = p.ranks.front().bubble;
    constexpr Ns kRounding = 100;  // every time is rounded to ns by itself
    for (std::size_t r = 0; r < p.ranks.size(); ++r) {
      Ns sum = 0;
      for (const plan::PlanAction& a : p.actions) sum += a.rank == static_cast<int>(r) ? a.end - a.start : 0;
      EXPECT_LE(std::abs(sum - p.ranks[r].busy), kRounding) << text;
      EXPECT_LE(std::abs(p.ranks[r].busy + p.ranks[r].bubble - drained), kRounding) << text;
      EXPECT_GT(p.ranks[r].update, 0) << text;
      least = std::min(least, p.ranks[r].bubble);
    }
    EXPECT_EQ(p.bubble, least) << text;
  }
}

TEST(PlanReport, EveryGpuIsBusyOrWaitsUntilThePipelineIsEmpty) {
  const analysis::Baseline& step = measured_step(kGpt2);
  expect_full(step);
  // Where the step was measured, all times of the pipeline are scaled as the step is.
  const double longer = 1.25 * static_cast<double>(step.figures.unprofiled) / 1e6;
  const auto measured = analysis::make_baseline(*step.model.trace, std::nullopt, longer);
  ASSERT_TRUE(measured) << measured.error().to_string();
  expect_full(*measured);
}

// A search of thousands of plans does not keep what would take gigabytes.
TEST(PlanReport, PassesThatAreDroppedChangeNothingElse) {
  plan::Planner planner = planner_for_gpt2();
  const plan::Plan plan = *plan::parse_plan("pp=4,microbatches=4");
  const plan::PlanPrediction all = planner.predict(plan);
  const plan::PlanPrediction some = planner.predict(plan, plan::Planner::Actions::kDropped);
  EXPECT_EQ(all.actions.size(), 32U);
  EXPECT_EQ(some.actions.capacity(), 0U);
  EXPECT_EQ(some.step, all.step);
  EXPECT_EQ(some.bubble, all.bubble);
}

TEST(PlanReport, JsonHasThePassesOfEachPlanAskedFor) {
  plan::Planner planner = planner_for_gpt2();
  const std::string json = report::to_json(report_of(planner, {"pp=2,microbatches=3", "tp=2"}));
  EXPECT_EQ(count(json, "\"kind\": \"F\""), 6U);
  EXPECT_EQ(count(json, "\"kind\": \"B\""), 6U);
  EXPECT_THAT(json, HasSubstr("\"actions\": []"));  // of tp=2
}

TEST(PlanReport, WhatAnotherProcessAnsweredReadsBack) {
  plan::Planner planner = planner_for_gpt2();
  plan::PlanReport asked = report_of(planner, {"", "tp=2,dp=2,zero=1", "pp=4,microbatches=8,recompute=full", "tp=7"});
  for (plan::PlanPrediction& p : asked.plans) p.actions.clear();
  auto read = report::read_plans(report::to_json(asked));
  ASSERT_TRUE(read) << read.error().to_string();
  EXPECT_NE(read->back().declined, "");
  plan::PlanReport again = asked;
  again.plans = *read;
  EXPECT_EQ(report::to_json(again), report::to_json(asked));

  const auto wrong = report::read_plans(R"({"schema": 1, "error": {"message": "no such file", "hint": "look"}})");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "no such file");
  EXPECT_FALSE(report::read_plans("[]"));
  EXPECT_FALSE(report::read_plans(""));
}

TEST(PlanReport, ASearchInOtherProcessesFindsTheSame) {
  plan::Planner planner = planner_for_gpt2();
  plan::Planner elsewhere = planner_for_gpt2();
  std::size_t asked = 0;
  const plan::PredictAll backwards = [&](const std::vector<plan::Plan>& plans) {
    std::vector<plan::PlanPrediction> out;
    for (auto p = plans.rbegin(); p != plans.rend(); ++p) {
      out.push_back(elsewhere.predict(*p, plan::Planner::Actions::kDropped));
    }
    asked += out.size();
    return Result<std::vector<plan::PlanPrediction>>(std::move(out));
  };
  const auto there = plan::search_plans(planner, {.gpus = 4, .predict_all = backwards});
  ASSERT_TRUE(there);
  EXPECT_EQ(asked, there->tried);
  EXPECT_EQ(report::to_json(*there), report::to_json(*plan::search_plans(planner, {.gpus = 4})));
  const plan::PredictAll nobody = [](const std::vector<plan::Plan>&) {
    return Result<std::vector<plan::PlanPrediction>>(std::vector<plan::PlanPrediction>());
  };
  EXPECT_FALSE(plan::search_plans(planner, {.gpus = 4, .predict_all = nobody}));
}

TEST(PlanReport, PageDrawsPlansAndOfASearchItsSizes) {
  plan::Planner planner = planner_for_gpt2();
  const std::string asked = report::to_page(report_of(planner, {"tp=4", "pp=4,microbatches=4"}));
  EXPECT_THAT(asked, HasSubstr("stagesSection();"));
  EXPECT_THAT(asked, HasSubstr("The fastest of 2 plans is "));
  EXPECT_THAT(asked, Not(HasSubstr("\"cells\":")));

  const plan::PlanReport found = plan::search_plans(planner, {.gpus = 4}).value();
  EXPECT_EQ(std::count_if(found.plans.begin(), found.plans.end(), [](const auto& p) { return !p.actions.empty(); }), 1);
  const auto pipeline =
      std::find_if(found.plans.begin(), found.plans.end(), [](const auto& p) { return p.plan.pp > 1; });
  ASSERT_NE(pipeline, found.plans.end());
  EXPECT_FALSE(pipeline->actions.empty());
  const std::string page = report::to_page(found);
  const std::string cells = page.substr(page.find("\"cells\":"));
  for (const char* const size :
       {R"("tp": 1, "pp": 1,)", R"("tp": 1, "pp": 4,)", R"("tp": 2, "pp": 2,)", R"("tp": 4, "pp": 1,)"}) {
    EXPECT_EQ(count(cells, size), 1U) << size;
  }
}

}  // namespace
}  // namespace foretrace::test
