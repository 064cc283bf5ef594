// A gate in view of noise: what passes, what fails, and what recordings cannot decide.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "compare/judge.hpp"
#include "compare/noise.hpp"
#include "compare/student.hpp"
#include "foretrace/compare/compare.hpp"
#include "foretrace/report/report.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::compare {
namespace {

using testing::HasSubstr;

constexpr double kGate = 3;

// A change by a factor, known to a 95 % interval of `noise` in logarithms.
Estimate known(double factor, double noise) {
  Estimate e{std::log(factor), 0, 20, true};
  e.error = noise / two_sided_quantile(0.05, e.freedom);
  return e;
}

Outcome outcome(const Estimate& step, std::optional<Estimate> parts = {}, std::optional<Estimate> certain = {}) {
  return judge({step, parts, certain, 1, 1}, kGate).outcome;
}

TEST(CompareGate, StudentsDistributionIsThatOfTables) {
  EXPECT_NEAR(two_sided_quantile(0.05, 1), 12.706, 1e-3);
  EXPECT_NEAR(two_sided_quantile(0.05, 5), 2.571, 1e-3);
  EXPECT_NEAR(two_sided_quantile(0.05, 30), 2.042, 1e-3);
  EXPECT_NEAR(two_sided_quantile(0.05, 1e6), 1.960, 1e-3);
  EXPECT_NEAR(two_sided_quantile(0.01, 10), 3.169, 1e-3);
  EXPECT_NEAR(two_sided_p(2.228, 10), 0.05, 1e-4);
  EXPECT_DOUBLE_EQ(two_sided_p(0, 10), 1);
}

TEST(CompareGate, FailsOnlyBeyondItsPercentAndTheNoise) {
  EXPECT_EQ(outcome(known(1.10, 0.02)), Outcome::kFailed);
  EXPECT_EQ(outcome(known(1.045, 0.02)), Outcome::kInconclusive);  // slower for certain, by more than 3 % perhaps
  EXPECT_EQ(outcome(known(1.02, 0.01)), Outcome::kPassed);         // slower for certain, by less than the gate
  EXPECT_EQ(outcome(known(1.00, 0.02)), Outcome::kPassed);
}

TEST(CompareGate, NoiseThatWouldHideAnythingIsNoPass) {
  EXPECT_EQ(outcome(known(1.00, std::log(1.24))), Outcome::kPassed);
  EXPECT_EQ(outcome(known(1.00, std::log(1.26))), Outcome::kInconclusive);
  EXPECT_EQ(outcome(known(0.50, std::log(1.26))), Outcome::kPassed);  // faster beyond any noise
  EXPECT_EQ(outcome(known(2.00, std::log(1.26))), Outcome::kFailed);
  EXPECT_EQ(judge({known(1.00, std::log(1.26)), {}, {}, 1, 1}, 40).outcome,
            Outcome::kPassed);  // a wide gate needs less
}

TEST(CompareGate, TheMorePreciseWitnessDecidesAndEitherCanFail) {
  EXPECT_EQ(outcome(known(1.00, 0.5), known(1.00, 0.02)), Outcome::kPassed);
  EXPECT_EQ(outcome(known(1.00, 0.02), known(1.00, 0.5)), Outcome::kPassed);
  EXPECT_EQ(outcome(known(1.00, 0.5), known(1.10, 0.02)), Outcome::kFailed);
  EXPECT_EQ(outcome(known(1.10, 0.02), known(1.00, 0.5)), Outcome::kFailed);
  const Judgement found = judge({known(1.00, 0.5), known(1.10, 0.02), {}, 1, 1}, kGate);
  EXPECT_TRUE(found.by_parts);
  EXPECT_NEAR(found.decisive.change, std::log(1.10), 1e-12);
}

TEST(CompareGate, APartThatIsSlowerForCertainIsNotOutweighedByNoise) {
  // The GPU's work makes the step 10 % slower; a CPU that seems faster, within its noise, hides it.
  EXPECT_EQ(outcome(known(1.02, 0.15), known(1.02, 0.15)), Outcome::kPassed);
  EXPECT_EQ(outcome(known(1.02, 0.15), known(1.02, 0.15), known(1.10, 0.02)), Outcome::kFailed);
  // The step's own figure excludes it: the two disagree.
  EXPECT_EQ(outcome(known(1.00, 0.02), known(1.02, 0.15), known(1.10, 0.02)), Outcome::kInconclusive);
}

TEST(CompareGate, WitnessesThatContradictEachOtherPassNothing) {
  // The recorder's steps are as before; everything in the traces takes longer, within the CPU's noise.
  const Evidence evidence{known(0.95, 0.15), known(1.28, 0.28), {}, 5, 5};
  EXPECT_EQ(judge(evidence, kGate).outcome, Outcome::kInconclusive);
  // What the more precise one does not exclude is no contradiction.
  EXPECT_EQ(outcome(known(1.00, 0.15), known(1.10, 0.28)), Outcome::kPassed);
  EXPECT_EQ(outcome(known(1.20, 0.28), known(1.00, 0.02)), Outcome::kInconclusive);
}

TEST(CompareGate, TheNumberOfRecordingsHoldsForUnluckyOnesToo) {
  // Nine of ten sets of three recordings show a noise below this; their average is lower.
  const Estimate one{0, 0.1, 20, true};
  const Estimate three = with_recordings(one, 1, 1, 3), many = with_recordings(one, 1, 1, 1000);
  EXPECT_NEAR(three.error / (0.1 / std::sqrt(3)), std::sqrt((2 + 4 * 1.945) / 6), 0.01);  // chi-square of 4: 7.78
  EXPECT_NEAR(many.error / (0.1 / std::sqrt(1000)), 1, 0.03);
}

TEST(CompareGate, SaysHowManyRecordingsWouldDecide) {
  const Judgement noisy = judge({known(1.00, 0.35), {}, {}, 1, 1}, kGate);
  ASSERT_TRUE(noisy.recordings_needed);
  EXPECT_GE(*noisy.recordings_needed, 2u);
  EXPECT_LE(*noisy.recordings_needed, 6u);
  const Estimate then = with_recordings(known(1.00, 0.35), 1, 1, *noisy.recordings_needed);
  EXPECT_LE(then.noise(), std::log(1.25));
  EXPECT_FALSE(judge({known(1.0301, 0.02), {}, {}, 1, 1}, kGate)
                   .recordings_needed);  // no number of recordings splits such a hair
  EXPECT_FALSE(judge({known(1.00, 0.02), {}, {}, 1, 1}, kGate).recordings_needed);  // decided
}

TEST(CompareGate, SeveralRecordingsMeasureTheirOwnNoise) {
  const Sigma table{0.1, 20};
  const Estimate alone = estimate({100}, {105}, table, table);
  const Estimate many = estimate({100, 101, 99, 100, 100.5}, {105, 106, 104, 105, 105.5}, table, table);
  EXPECT_FALSE(alone.own);
  EXPECT_TRUE(many.own);
  EXPECT_GT(alone.noise(), std::log(1.05));
  EXPECT_LT(many.error, alone.error / 2);
  // The noise of other programs is trusted less than a program's own.
  EXPECT_NEAR(alone.noise() / alone.error, two_sided_quantile(0.01, 20), 1e-9);
  EXPECT_NEAR(many.noise() / many.error, two_sided_quantile(0.05, 10), 1e-9);
  // Recordings that happen to agree do not claim to have no noise.
  EXPECT_GT(estimate({100, 100}, {100, 100}, table, table).error, 0.05);
}

trace::Trace load(const std::string& file) {
  Result<trace::Trace> trace = trace::load(FORETRACE_SOURCE_DIR "/" + file);
  EXPECT_TRUE(trace) << (trace ? "" : trace.error().to_string());
  return trace ? std::move(*trace) : trace::Trace{};
}

// The whole timeline longer by a factor; what the recorder stored stays.
trace::Trace stretched(trace::Trace trace, double factor) {
  for (std::size_t e = 0; e < trace.size(); ++e) {
    trace.events.start[e] = std::llround(static_cast<double>(trace.events.start[e]) * factor);
    trace.events.duration[e] = std::llround(static_cast<double>(trace.events.duration[e]) * factor);
  }
  return trace;
}

Comparison gated(const trace::Trace& before, const trace::Trace& after) {
  Result<Comparison> c = compare({&before}, {&after}, {.gate_pct = kGate});
  EXPECT_TRUE(c) << (c ? "" : c.error().to_string());
  return c ? std::move(*c) : Comparison{};
}

TEST(CompareGate, AFilePassesAgainstItselfAndFailsAgainstASlowerCopy) {
  for (const char* file : {"examples/resnet50-h200.json.gz", "data/h200-clean/recordings/mlp.base.00.json.gz"}) {
    const trace::Trace trace = load(file);
    const Comparison same = gated(trace, trace);
    EXPECT_EQ(same.outcome, Outcome::kPassed) << file;
    EXPECT_EQ(same.noise_pct, 0) << file;
    EXPECT_EQ(gated(trace, stretched(load(file), 1.8)).outcome, Outcome::kFailed) << file;
  }
}

TEST(CompareGate, AGpuBoundStepIsDecidedByOneRecordingPerSide) {
  const char* other = "data/h200-clean/recordings/lstm_lm.base.05.json.gz";
  const trace::Trace before = load("data/h200-clean/recordings/lstm_lm.base.00.json.gz");
  EXPECT_EQ(gated(before, load(other)).outcome, Outcome::kPassed);
  for (const double factor : {1.1, 1.5, 1.8}) {
    const Comparison c = gated(before, stretched(load(other), factor));
    EXPECT_EQ(c.outcome, Outcome::kFailed) << factor;
    const auto gpu = std::find_if(c.parts.begin(), c.parts.end(), [](const Part& p) { return p.name == "GPU work"; });
    ASSERT_NE(gpu, c.parts.end());
    EXPECT_NEAR(gpu->change.pct, 100 * (factor - 1), 2);
    EXPECT_LT(gpu->change.noise_pct, 3);
    EXPECT_LT(gpu->change.p_value, 1e-6);
  }
}

TEST(CompareGate, ACpuBoundStepNeedsSeveral) {
  const char* other = "data/h200-clean/recordings/mlp.base.01.json.gz";
  const trace::Trace before = load("data/h200-clean/recordings/mlp.base.00.json.gz");
  const Comparison c = gated(before, load(other));
  EXPECT_EQ(c.outcome, Outcome::kInconclusive);
  ASSERT_TRUE(c.recordings_needed);
  EXPECT_GT(*c.recordings_needed, 1u);
  EXPECT_THAT(report::sentences(c).back(), HasSubstr("is inconclusive"));
  EXPECT_THAT(report::sentences(c).back(), HasSubstr("recordings per side would decide"));
  EXPECT_NE(gated(before, stretched(load(other), 1.25)).outcome, Outcome::kPassed);
}

}  // namespace
}  // namespace foretrace::compare
