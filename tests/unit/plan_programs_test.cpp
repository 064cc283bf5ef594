// What programs do with a plan's memory and communication: FP32 copies of half precision, buckets, stages without blocks, recomputation.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "measured_step.hpp"
#include "plan/plan.hpp"

namespace foretrace::test {
namespace {

using ::testing::HasSubstr;

// 8 blocks of 12 * 2048^2 weights, an embedding and a head of 51200 x 2048 each.
constexpr const char* kGpt = "data/h200-decoders/gpt2048@4x1024.json.gz";
constexpr const char* kLlama3b = "data/h200-decoders/llama3b@2x4096.json.gz";
constexpr const char* kLlama70b = "data/h200-decoders/llama70b@1x4096.json.gz";
constexpr const char* kLlama8b = "data/h200-decoders/llama8b@1x4096.json.gz";

plan::Planner planner_of(const char* step, plan::PlanOptions options = {}) {
  if (options.network.fabric.empty()) options.network.fabric = "DGX-H100";
  auto made = plan::Planner::make(step_at(step), options);
  EXPECT_TRUE(made) << made.error().to_string();
  return std::move(*made);
}

plan::PlanPrediction predicted(plan::Planner& planner, const std::string& text) {
  const auto plan = plan::parse_plan(text);
  EXPECT_TRUE(plan) << text << ": " << plan.error().to_string();
  plan::PlanPrediction p = planner.predict(*plan);
  EXPECT_EQ(p.declined, "") << text;
  return p;
}

double states(plan::Planner& planner, const std::string& text) {
  return static_cast<double>(predicted(planner, text).ranks.front().states_bytes);
}
double activations(plan::Planner& planner, const std::string& text) {
  return static_cast<double>(predicted(planner, text).ranks.front().activation_bytes);
}

// Bytes of a parameter in programs that train half-precision weights with FP32 copies.
TEST(PlanPrograms, BytesOfAParameterAreThoseOfMegatronNanotronAndFsdp) {
  plan::Planner planner = planner_of(kGpt);
  const auto parameters = static_cast<double>(step_at(kGpt).model.parameter_elements);
  const auto each = [&](const std::string& text) { return states(planner, text + ",master=fp32") / parameters; };
  // Weights 2, gradients 4, FP32 weights and two moments 12; one buffer that is reduced where it is.
  EXPECT_NEAR(each("dp=4,microbatches=1"), 18, 0.01);
  EXPECT_NEAR(each("dp=4,microbatches=1,zero=1"), 2 + 4 + 12.0 / 4, 0.01);
  EXPECT_NEAR(each("dp=4,microbatches=1,zero=2"), 2 + 4.0 / 4 + 12.0 / 4, 0.01);
  // Half-precision weights are made as they are gathered.
  EXPECT_NEAR(each("dp=4,microbatches=1,zero=3"), 16.0 / 4, 0.01);
  EXPECT_NEAR(each("dp=4,microbatches=1,zero=1,buckets=kept"), 2 + 4 + 2 + 12.0 / 4, 0.01);
  EXPECT_NEAR(each("microbatches=1,buckets=kept"), 18, 0.01);  // nobody to reduce with
  // With several micro-batches the largest gradient is made in addition to the sum.
  const double largest = 51200.0 * 2048 / parameters;
  EXPECT_NEAR(each("dp=4,microbatches=4"), 18 + 2 * largest, 0.01);
}

// Gradients in one buffer are there in the forward pass, too.
TEST(PlanPrograms, TheGradientBufferCountsAtThePeak) {
  plan::Planner planner = planner_of(kGpt);
  for (const char* const text :
       {"microbatches=1,master=fp32", "microbatches=4,master=fp32", "pp=2,microbatches=4,master=fp32"}) {
    const plan::PlanRank first = predicted(planner, text).ranks.front();
    EXPECT_GE(*first.peak_bytes, first.states_bytes + first.activation_bytes * 3 / 4) << text;
  }
}

// 4096 positions of a model that is 4096 wide: results have the shapes of weights, and are none.
TEST(PlanPrograms, ActivationsFollowThePositionsWhereverTheyAreAsManyAsFeatures) {
  plan::Planner shorter = planner_of(kLlama8b), longer = planner_of("data/h200-decoders/llama8b@1x8192.json.gz");
  EXPECT_NEAR(activations(longer, "microbatches=1") / activations(shorter, "microbatches=1"), 2, 0.01);
}

TEST(PlanPrograms, TensorsAreDividedAtAnyBatch) {
  plan::Planner planner = planner_of(kLlama3b);
  const double all = states(planner, "microbatches=1");
  for (const std::string tp : {"2", "4", "8"}) {
    const double size = std::stod(tp);
    // Query, key and value read the same and have one shape: none of them is left out.
    EXPECT_NEAR(states(planner, "tp=" + tp + ",microbatches=1") * size / all, 1, 0.002) << tp;
    for (const std::string samples : {"1", "2", "4", "8"}) {
      const std::string one = "microbatches=1,microbatch=" + samples;
      EXPECT_NEAR(activations(planner, fmt::format("tp={},sequence=1,{}", tp, one)) * size / activations(planner, one),
                  1, 0.05)
          << tp << " " << samples;
    }
  }
}

// The router's scores choose tokens; they do not feed the experts' products.
TEST(PlanPrograms, ExpertsAreDividedByTheirFeatures) {
  plan::Planner planner = planner_of("data/h200-decoders/mixtral@1x4096.json.gz");
  EXPECT_NEAR(states(planner, "tp=4,microbatches=1") * 4 / states(planner, "microbatches=1"), 1, 0.002);
}

TEST(PlanPrograms, LongerSequencesDividedAgainAreTheTracedOnes) {
  plan::Planner traced = planner_of(kLlama70b);
  for (const std::string x : {"2", "8"}) {
    plan::PlanOptions options;
    options.changes = *analysis::parse_uses({"sequence:x=" + x});
    plan::Planner longer = planner_of(kLlama70b, options);
    EXPECT_NEAR(activations(longer, "cp=" + x + ",microbatches=1") / activations(traced, "microbatches=1"), 1, 0.02)
        << x;
  }
}

TEST(PlanPrograms, SmallerBucketsNeverReduceFaster) {
  plan::PlanOptions options;
  options.network.fabric = "100GbE";
  plan::Planner planner = planner_of(kGpt, options);
  for (const char* const text : {"dp=8,microbatches=2,overlap=0", "dp=8,microbatches=2,zero=1,master=fp32,overlap=0"}) {
    Ns before = 0;
    for (const char* const bucket : {"4000", "400", "40", "4", "0.4"}) {
      const Ns now = predicted(planner, std::string(text) + ",bucket-mb=" + bucket).exposed_gradients;
      EXPECT_GE(now, before) << text << bucket;
      before = now;
    }
    EXPECT_GT(before, predicted(planner, std::string(text) + ",bucket-mb=4000").exposed_gradients);
  }
  // Megatron reduces its buffer as a whole where nothing overlaps it.
  EXPECT_EQ(predicted(planner, "dp=8,microbatches=2,zero=1,master=fp32,overlap=0").exposed_gradients,
            predicted(planner, "dp=8,microbatches=2,zero=1,master=fp32,overlap=0,bucket-mb=1e6").exposed_gradients);
}

TEST(PlanPrograms, AFusedLossTakesLessMemoryThanOneInSteps) {
  plan::Planner planner = planner_of(kLlama8b);
  const auto peak = [&](const std::string& text) { return static_cast<double>(*predicted(planner, text).peak_bytes); };
  // Logits of 4096 positions in FP32: a gradient of that size goes, and the copy that it is made from.
  constexpr double kLogits = 4.0 * 4096 * 128256;
  for (const char* const text : {"microbatches=2,microbatch=1", "microbatches=2,microbatch=1,master=fp32"}) {
    const double less = peak(text) - peak(std::string(text) + ",loss=fused");
    EXPECT_GT(less, 0.5 * kLogits) << text;
    EXPECT_LT(less, 3 * kLogits) << text;
  }
}

TEST(PlanPrograms, AStageMayHoldTheHeadAlone) {
  plan::Planner planner = planner_of(kGpt);
  const plan::PlanPrediction p = predicted(planner, "pp=3,stages=4|4|0,microbatches=4");
  EXPECT_EQ(p.ranks[2].blocks, 0);
  EXPECT_LT(p.ranks[2].busy, p.ranks[1].busy);
  EXPECT_GT(p.ranks[2].states_bytes, 0);
  EXPECT_THAT(planner.predict(*plan::parse_plan("pp=3,stages=4|3|0")).declined, HasSubstr("have 7 blocks"));
}

// torchtitan's policy for single operations: every second product runs again.
TEST(PlanPrograms, RecomputingEverySecondProductIsBetweenSelectiveAndFull) {
  plan::Planner planner = planner_of(kLlama8b);
  const auto of = [&](const char* how) { return predicted(planner, std::string("microbatches=1,recompute=") + how); };
  const plan::PlanPrediction selective = of("selective"), alternate = of("alternate"), full = of("full");
  EXPECT_LT(selective.step, alternate.step);
  EXPECT_LT(alternate.step, full.step);
  EXPECT_GT(selective.ranks[0].activation_bytes, alternate.ranks[0].activation_bytes);
  EXPECT_GT(alternate.ranks[0].activation_bytes, full.ranks[0].activation_bytes);
  // A block keeps its input and the results of attention, of query, value and up: in elements of a position, in two bytes each.
  const double each =
      static_cast<double>(alternate.ranks[0].activation_bytes - full.ranks[0].activation_bytes) / 8 / 4096 / 2;
  EXPECT_NEAR(each, 4096 + 1024 + 14336 + 4096 + 4096, 0.2 * 27648);
}

// A model of 126 layers recorded with one: the only entry of its list of layers is the block.
TEST(PlanPrograms, TheOnlyBlockOfATraceIsRecomputed) {
  auto planner = planner_of("data/h200-decoders/llama405b@1x4096.json.gz", {.layers = 126});
  const plan::PlanPrediction kept = predicted(planner, "tp=8");
  const plan::PlanPrediction again = predicted(planner, "tp=8,recompute=full");
  const plan::PlanPrediction half = predicted(planner, "tp=8,recompute=63");
  // Backward takes twice as long as forward, which now runs twice.
  const double longer = static_cast<double>(again.step) / static_cast<double>(kept.step);
  EXPECT_GT(longer, 1.15);  // the update and what tensor parallelism sums up outside blocks stay
  EXPECT_LT(longer, 1.45);
  EXPECT_NEAR(static_cast<double>(half.step), static_cast<double>(kept.step + again.step) / 2,
              0.02 * static_cast<double>(kept.step));
  // Of each layer its input is kept.
  EXPECT_LT(again.ranks[0].activation_bytes, kept.ranks[0].activation_bytes / 4);
}

TEST(PlanPrograms, KeysAreReadAndRefused) {
  for (const char* const text :
       {"pp=2,stages=8|0", "dp=2,master=fp32,bucket-mb=100,buckets=kept", "loss=fused", "recompute=alternate"}) {
    const auto plan = plan::parse_plan(text);
    ASSERT_TRUE(plan) << text << ": " << plan.error().to_string();
    EXPECT_EQ(*plan::parse_plan(plan::to_text(*plan)), *plan) << text;
  }
  const auto why = [](std::string_view text) {
    const auto plan = plan::parse_plan(text);
    return plan ? std::string() : plan.error().message;
  };
  EXPECT_THAT(why("dp=2,buckets=kept"), HasSubstr("master=fp32"));
  EXPECT_THAT(why("bucket-mb=0"), HasSubstr("above 0"));
  EXPECT_THAT(why("pp=2,stages=8|-1"), HasSubstr("whole numbers"));
}

}  // namespace
}  // namespace foretrace::test
