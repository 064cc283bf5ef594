// Plans: their text, what they are worth against the step they come from, and laws that hold for any of them.

#include "plan/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hardware/collective.hpp"
#include "measured_step.hpp"
#include "plan/compose.hpp"

namespace foretrace::test {
namespace {

using ::testing::HasSubstr;

constexpr const char* kGpt2 = "h200-lengths/gpt2-today";  // 12 blocks

plan::Planner planner_of(const std::string& step, plan::PlanOptions options = {}) {
  if (options.network.fabric.empty()) options.network.fabric = "DGX-H100";
  auto made = plan::Planner::make(measured_step(step), options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

plan::PlanPrediction predicted_plan(plan::Planner& planner, const std::string& text) {
  const auto plan = plan::parse_plan(text);
  EXPECT_TRUE(plan) << text << ": " << plan.error().to_string();
  plan::PlanPrediction p = planner.predict(*plan);
  EXPECT_EQ(p.declined, "") << text;
  return p;
}

TEST(Plan, TextIsReadAndWrittenBack) {
  for (const char* const text :
       {"", "tp=2,pp=4,dp=8,zero=1,sequence=1,microbatches=16", "pp=4,schedule=interleaved,chunks=2", "cp=2,kind=ring",
        "ep=8,dp=8,reduce=0", "tp=2,vocab=replicated,recompute=full", "dp=16,fsdp=8,param-dtype=bf16,reduce-dtype=fp32",
        "pp=2,microbatch=1,global-batch=64,schedule=zb1p,master=fp32,outputs=kept"}) {
    const auto plan = plan::parse_plan(text);
    ASSERT_TRUE(plan) << text << ": " << plan.error().to_string();
    EXPECT_EQ(*plan::parse_plan(plan::to_text(*plan)), *plan) << text;
  }
  EXPECT_EQ(plan::to_text(*plan::parse_plan("tp=1,pp=1,dp=1")), "");
  EXPECT_EQ(plan::parse_plan("fsdp=8")->zero, 3);
  EXPECT_EQ(plan::parse_plan("fsdp=8")->dp, 8);
  EXPECT_EQ(plan::parse_plan("ep=8")->dp, 8);
  EXPECT_EQ(plan::parse_plan("tp=2,pp=3,cp=2,dp=4")->workers(), 48);
}

TEST(Plan, WhatIsWrongByItselfIsRefused) {
  const auto why = [](std::string_view text) {
    const auto plan = plan::parse_plan(text);
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_THAT(why("tp"), HasSubstr("no key=value"));
  EXPECT_THAT(why("tp=0"), HasSubstr("whole number"));
  EXPECT_THAT(why("tp=2,tp=2"), HasSubstr("twice"));
  EXPECT_THAT(why("speed=2"), HasSubstr("no 'speed'"));
  EXPECT_THAT(why("pp=2,schedule=2f2b"), HasSubstr("1f1b or gpipe"));
  EXPECT_THAT(why("schedule=gpipe"), HasSubstr("pp of 2"));
  EXPECT_THAT(why("sequence=1"), HasSubstr("tp of 2"));
  EXPECT_THAT(why("ep=3,dp=4"), HasSubstr("does not divide"));
  EXPECT_THAT(why("dp=6,fsdp=4"), HasSubstr("does not divide"));
  EXPECT_THAT(why("pp=4,microbatches=9,schedule=interleaved"), HasSubstr("equal rounds"));
  EXPECT_THAT(why("dp=2,microbatch=2,microbatches=4,global-batch=8"), HasSubstr("are 16 samples"));
  EXPECT_THAT(why("tp=16384,pp=2"), HasSubstr("limit"));
}

TEST(Plan, OfOnesIsTheStep) {
  plan::Planner planner = planner_of(kGpt2);
  const plan::PlanPrediction p = predicted_plan(planner, "tp=1,pp=1,dp=1");
  const whatif::Prediction base = analysis::predict(measured_step(kGpt2), {});
  EXPECT_EQ(p.step, base.step);
  EXPECT_EQ(p.peak_bytes, base.peak_bytes);
  EXPECT_EQ(p.bubble, 0);
  EXPECT_EQ(p.exposed_communication, 0);
}

TEST(Plan, OfOneShardingIsItsWhatIf) {
  plan::Planner planner = planner_of(kGpt2);
  const auto step = [](const std::string& whatif) {
    return analysis::predict(measured_step(kGpt2), {*whatif::parse_use(whatif)}).step;
  };
  EXPECT_EQ(predicted_plan(planner, "tp=2,vocab=replicated").step, step("tp:size=2,fabric=DGX-H100,vocab=replicated"));
  EXPECT_EQ(predicted_plan(planner, "dp=4").step, step("ddp:workers=4,fabric=DGX-H100"));
}

TEST(Plan, StatesNeverGrowWithStagesTensorsOrSharding) {
  plan::Planner planner = planner_of(kGpt2);
  const auto fullest = [&](const std::string& text) {
    std::int64_t states = 0;
    for (const plan::PlanRank& r : predicted_plan(planner, text).ranks) states = std::max(states, r.states_bytes);
    return states;
  };
  for (const char* const more : {"", ",zero=1", ",zero=2", ",zero=3"}) {
    const std::string data = std::string(",dp=4,microbatches=4") + more;
    std::int64_t before = fullest("pp=1" + data);
    for (const char* const stages : {"2", "3", "4", "6"}) {
      const std::int64_t states = fullest(std::string("pp=") + stages + data);
      EXPECT_LE(states, before) << stages << more;
      before = states;
    }
    EXPECT_LE(fullest("tp=2,pp=2" + data), fullest("pp=2" + data)) << more;
  }
  for (const char* const stages : {"1", "2"}) {
    const std::string with = std::string("pp=") + stages + ",dp=4,microbatches=4,zero=";
    EXPECT_LT(fullest(with + "1"), fullest(with + "0"));
    EXPECT_LT(fullest(with + "2"), fullest(with + "1"));
    EXPECT_LT(fullest(with + "3"), fullest(with + "2"));
  }
}

TEST(Plan, AFasterFabricNeverHurts) {
  plan::Planner slow = planner_of(kGpt2, {.network = {.fabric = "100GbE"}});
  plan::Planner fast = planner_of(kGpt2, {.network = {.fabric = "400GbE"}});
  for (const char* const text : {"pp=4,microbatches=4", "pp=2,dp=8,microbatches=4", "pp=2,dp=8,microbatches=4,zero=1",
                                 "pp=2,dp=4,microbatches=4,zero=3", "tp=2,pp=2,dp=4,microbatches=4"}) {
    EXPECT_LE(predicted_plan(fast, text).step, predicted_plan(slow, text).step) << text;
  }
}

TEST(Plan, MoreLayersTakeLongerAndMoreMemory) {
  plan::Planner twelve = planner_of(kGpt2);
  plan::Planner many = planner_of(kGpt2, {.network = {.fabric = "DGX-H100"}, .layers = 48});
  const plan::PlanPrediction a = predicted_plan(twelve, "pp=2,microbatches=4");
  const plan::PlanPrediction b = predicted_plan(many, "pp=2,microbatches=4");
  EXPECT_GT(b.step, 2 * a.step);
  EXPECT_GT(*b.peak_bytes, 2 * *a.peak_bytes);
  EXPECT_EQ(many.figures().traced_layers, 12);
}

TEST(Plan, WhatDoesNotGoWithTheModelIsDeclined) {
  plan::Planner planner = planner_of(kGpt2);
  const auto why = [&](const char* text) { return planner.predict(*plan::parse_plan(text)).declined; };
  EXPECT_THAT(why("pp=16,microbatches=2"), HasSubstr("12 blocks do not fill 16 stages"));
  EXPECT_THAT(why("tp=5"), HasSubstr("cannot be divided over 5"));
  EXPECT_THAT(why("microbatches=1000"), HasSubstr("less than one sample"));
}

// Equal stages and free transfers: the step's waiting is the closed form of the schedule.
TEST(Plan, BubblesOfEqualStagesAreThoseOfTheClosedForm) {
  plan::Parts parts;
  parts.block = {.forward = 1000, .backward = 2000, .weight = 1000};
  parts.blocks = 8;
  hardware::Fabric free;
  free.name = "free";
  free.levels = {{.name = "free", .link = hardware::LinkKind::kNvlink, .gbs = 1e9}};
  plan::Groups groups({std::make_shared<hardware::FabricCollectives>(free), 1 << 20, "free"});
  const auto bubble = [&](const std::string& text) {
    const plan::Plan plan = *plan::parse_plan(text);
    const auto made = plan::compose({plan, parts, 8, *plan.microbatches}, groups, false);
    EXPECT_TRUE(made) << made.error().to_string();
    return made->bubble;
  };
  EXPECT_EQ(bubble("pp=4,microbatches=8"), 3 * 2 * 3000);
  EXPECT_EQ(bubble("pp=4,microbatches=8,schedule=gpipe"), 3 * 2 * 3000);
  EXPECT_EQ(bubble("pp=4,microbatches=8,schedule=interleaved"), 3 * 3000);
  EXPECT_EQ(bubble("pp=4,microbatches=8,schedule=zb1p"), 3 * 2 * 1000);
}

TEST(Plan, TheSearchGivesPlansOfSoManyGpusBestFirst) {
  plan::Planner planner = planner_of(kGpt2);
  const plan::PlanReport r = plan::search_plans(planner, {.gpus = 4});
  ASSERT_FALSE(r.plans.empty());
  EXPECT_EQ(r.tried, r.plans.size() + r.declined.size());
  for (std::size_t i = 0; i < r.plans.size(); ++i) {
    EXPECT_EQ(r.plans[i].workers, 4);
    EXPECT_NE(r.plans[i].fits, std::optional(false));
    if (i > 0) EXPECT_LE(*r.plans[i].samples_per_s, *r.plans[i - 1].samples_per_s);
  }
  for (const plan::PlanPrediction& p : r.declined) EXPECT_NE(p.declined, "");
}

}  // namespace
}  // namespace foretrace::test
