// How steps are found: by marks, by ranges from the table, by a name the user gives, by repetition.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include <numeric>
#include <random>

#include "foretrace/trace/trace.hpp"
#include "trace/name_tables.hpp"
#include "trace/ranges.hpp"
#include "trace/step_ranges.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using trace::StepSource;

// Ten launches of 1 us each from `begin` on, 2 us apart, with kernels of 5 us behind one another from `gpu` on.
void batch(TraceMaker& m, int first, Ns begin, Ns gpu, int kernels = 10) {
  for (int i = 0; i < kernels; ++i) {
    m.launch(first + i, {begin + i * 2'000, begin + i * 2'000 + 1'000}, fmt::format("kernel {}", i),
             {gpu + i * 5'000, gpu + (i + 1) * 5'000});
  }
}

TEST(StepTable, PatternsMatchAsWritten) {
  EXPECT_TRUE(trace::matches("Step 12", "step %d"));
  EXPECT_FALSE(trace::matches("step", "step %d"));
  EXPECT_FALSE(trace::matches("step 12 b", "step %d"));
  EXPECT_TRUE(trace::matches("step[DECODE bs=32]", "step[*]"));
  EXPECT_TRUE(trace::matches("[Executor] _forward_step 7: 1 ctx reqs", "[Executor] _forward_step %d*"));
  EXPECT_TRUE(trace::matches("execute_32_context_0(sq0)_generation_32(sq1)", "execute_*_context_*_generation_*"));
  EXPECT_FALSE(trace::matches("execute_32_context_0(sq0)", "execute_*_context_*_generation_*"));
  EXPECT_TRUE(trace::matches("", "*"));
  EXPECT_FALSE(trace::matches("", "a"));
  EXPECT_EQ(trace::without_numbers("step 12 of 300"), "step %d of %d");
}

TEST(StepTable, RowsAreInOrderOfPriorityAndSayWhereTheyComeFrom) {
  int before = 0;
  for (const trace::StepPattern& p : trace::step_patterns()) {
    EXPECT_GE(p.priority, before) << p.pattern;
    EXPECT_FALSE(p.source.empty()) << p.pattern;
    before = p.priority;
  }
  EXPECT_TRUE(trace::is_step_range("ProfilerStep#3"));
  EXPECT_FALSE(trace::is_step_range("Optimizer.step#SGD.step")) << "it ends a step, it is none";
  EXPECT_FALSE(trace::is_step_range("aten::step"));
}

TEST(Steps, ProfilerStepsComeFirst) {
  TraceMaker m;
  m.step(3, 0, 100'000).range("train_step", 1'000, 99'000);
  batch(m, 1, 2'000, 30'000);
  const trace::Steps steps = trace::find_steps(m.load());
  EXPECT_EQ(steps.source, StepSource::kProfilerStep);
  ASSERT_EQ(steps.steps.size(), 1U);
  EXPECT_EQ(steps.steps[0].duration(), 100'000);
  EXPECT_EQ(steps.steps[0].number, 3);
}

TEST(Steps, RangesOfAnEngineArePeriods) {
  TraceMaker m;
  for (int i = 0; i < 4; ++i) {
    m.range(fmt::format("[Executor] _forward_step {}: 0 ctx reqs, 32 gen reqs", 40 + i), i * 100'000,
            i * 100'000 + 60'000);
    batch(m, 1 + i * 100, i * 100'000 + 1'000, i * 100'000 + 10'000);
  }
  const trace::Steps steps = trace::find_steps(m.load());
  EXPECT_EQ(steps.source, StepSource::kAnnotation);
  ASSERT_EQ(steps.steps.size(), 3U) << "what follows the last range is not in the file";
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(steps.steps[i].duration(), 100'000);
    EXPECT_EQ(steps.steps[i].number, static_cast<std::int64_t>(40 + i));
  }
  EXPECT_NE(steps.marked_by.find("TensorRT-LLM"), std::string::npos);
}

TEST(Steps, RangesThatFillTheirPeriodKeepTheLast) {
  TraceMaker m;
  for (int i = 0; i < 3; ++i) {
    m.range("train_step", i * 100'000, i * 100'000 + 99'000);
    batch(m, 1 + i * 100, i * 100'000 + 1'000, i * 100'000 + 10'000);
  }
  const trace::Steps steps = trace::find_steps(m.load());
  ASSERT_EQ(steps.steps.size(), 3U);
  EXPECT_EQ(steps.steps[2].duration(), 99'000);
  EXPECT_EQ(steps.steps[1].name, "train_step 1") << "the same name three times tells no step apart";
}

TEST(Steps, AnIdleEngineIsNoPartOfAStep) {
  TraceMaker m;
  const Ns starts[] = {0, 100'000, 200'000, 2'000'000, 2'100'000};
  for (int i = 0; i < 5; ++i) {
    m.range("step[DECODE bs=1]", starts[i], starts[i] + 99'000);
    batch(m, 1 + i * 100, starts[i] + 1'000, starts[i] + 10'000);
  }
  const trace::Steps steps = trace::find_steps(m.load());
  ASSERT_EQ(steps.steps.size(), 5U);
  EXPECT_EQ(steps.steps[2].duration(), 99'000);
}

TEST(Steps, OfNestedRangesTheInnermostThatHoldsTheWholeStep) {
  TraceMaker m;
  m.range("execute_1_context_0(a)_generation_1(b)", 0, 200'000);
  m.range("step[DECODE bs=1]", 10'000, 190'000);
  batch(m, 1, 20'000, 30'000);
  EXPECT_EQ(trace::find_steps(m.load()).steps.at(0).name, "step[DECODE bs=1]");

  TraceMaker half;
  half.range("execute_1_context_0(a)_generation_1(b)", 0, 200'000);
  half.range("step[DECODE bs=1]", 10'000, 60'000);
  batch(half, 1, 20'000, 30'000);
  batch(half, 50, 100'000, 120'000);
  EXPECT_EQ(trace::find_steps(half.load()).steps.at(0).name, "execute_1_context_0(a)_generation_1(b)");
}

TEST(Steps, ARangeWithTwoUpdatesIsMoreThanAStep) {
  TraceMaker m;
  m.range("train_step", 0, 400'000);
  for (int i = 0; i < 4; ++i) {
    batch(m, 1 + i * 100, i * 100'000 + 1'000, i * 100'000 + 10'000);
    m.range("Optimizer.step#SGD.step", i * 100'000 + 80'000, i * 100'000 + 90'000);
  }
  const trace::Steps steps = trace::find_steps(m.load());
  EXPECT_EQ(steps.source, StepSource::kOptimizer);
  EXPECT_EQ(steps.steps.size(), 3U);
}

TEST(Steps, ARangeOfAHandfulOfTasksIsRefused) {
  TraceMaker m;
  for (int i = 0; i < 6; ++i) {
    m.range(fmt::format("step {}", i), i * 100'000, i * 100'000 + 50'000);
    m.launch(i + 1, {i * 100'000 + 1'000, i * 100'000 + 2'000}, "kernel", {i * 100'000 + 5'000, i * 100'000 + 9'000});
  }
  EXPECT_NE(trace::find_steps(m.load()).source, StepSource::kAnnotation);
}

TEST(Steps, EqualLayersInsideAnAnnotatedStepAreNoSteps) {
  TraceMaker m;
  m.range("step[PREFILL bs=1]", 0, 2'000'000);
  for (int layer = 0; layer < 24; ++layer) batch(m, 1 + layer * 100, 1'000 + layer * 60'000, 5'000 + layer * 60'000);
  const trace::Steps steps = trace::find_steps(m.load());
  EXPECT_EQ(steps.source, StepSource::kAnnotation);
  EXPECT_EQ(steps.steps.size(), 1U);
}

TEST(LoneStep, RunsFromItsFirstTaskToTheEndOfItsGpuWork) {
  TraceMaker m;
  m.range("step[DECODE bs=1]", 0, 50'000);
  m.op("aten::slice", 10'000, 12'000);
  batch(m, 1, 15'000, 18'000);
  const trace::Step step = trace::find_steps(m.load()).steps.at(0);
  EXPECT_EQ(step.start, 10'000);
  EXPECT_EQ(step.end, 18'000 + 50'000);
  EXPECT_EQ(step.waited, 0);
  const Replay r(m);
  EXPECT_EQ(r.step(), 58'000);
  EXPECT_FALSE(r.graph.periodic);
}

// The GPU is busy with work of before the file until 1 ms; the thread goes on meanwhile.
TEST(LoneStep, WaitingForWorkThatIsNotInTheFileIsCutOff) {
  TraceMaker m;
  m.range("step[DECODE bs=1]", 0, 50'000);
  batch(m, 1, 10'000, 1'000'000);
  const trace::Step step = trace::find_steps(m.load()).steps.at(0);
  // The last launch returns at 29 us; its kernel began at 1.045 ms.
  EXPECT_EQ(step.waited, 1'000'000 - 11'000 - 0);
  EXPECT_EQ(step.waited_until, 1'000'000);
  const Replay r(m);
  EXPECT_NEAR(static_cast<double>(r.step()), static_cast<double>(step.duration()), 3'000);
  EXPECT_EQ(r.graph.notes.waited, step.waited);
}

TEST(LoneStep, AThreadThatWaitsForMissingWorkMovesWithIt) {
  TraceMaker m;
  m.range("step[DECODE bs=1]", 0, 1'100'000);
  m.launch(1, {10'000, 12'000}, "first", {1'000'000, 1'005'000});
  m.call("hipMemcpyWithStream", {20'000, 1'020'000}, 2).copy(2, "Memcpy DtoH (Device -> Host)", {1'005'000, 1'010'000});
  batch(m, 10, 1'030'000, 1'035'000);
  const trace::Step step = trace::find_steps(m.load()).steps.at(0);
  EXPECT_EQ(step.waited, 1'005'000 - 20'000) << "the copy could have run when it was asked for";
  EXPECT_EQ(step.duration(), step.end - step.start - 985'000);
  const Replay r(m);
  EXPECT_NEAR(static_cast<double>(r.step()), static_cast<double>(step.duration()), 12'000)
      << "a blocking copy is asked for up to 10 us before it runs";
}

TEST(LoneStep, WorkInTheFileExplainsADelay) {
  TraceMaker m;
  m.launch(900, {1'000, 2'000}, "before", {5'000, 900'000});
  m.range("step[DECODE bs=1]", 10'000, 50'000);
  batch(m, 1, 11'000, 900'000);
  EXPECT_EQ(trace::find_steps(m.load()).steps.at(0).waited, 0);
}

TEST(StepsBy, PicksRangesByNamePatternOrWithoutNumbers) {
  TraceMaker m;
  m.step(3, 0, 300'000);
  for (int i = 0; i < 3; ++i) {
    m.range(fmt::format("micro {}", i), i * 100'000, i * 100'000 + 98'000);
    batch(m, 1 + i * 100, i * 100'000 + 1'000, i * 100'000 + 10'000);
  }
  const trace::Trace t = m.load();
  for (const char* name : {"micro %d", "micro*", "micro", "micro 1"}) {
    const Result<trace::Steps> steps = trace::steps_by(t, name);
    ASSERT_TRUE(steps) << name;
    EXPECT_EQ(steps->source, StepSource::kByName);
    EXPECT_EQ(steps->steps.size(), std::string_view(name) == "micro 1" ? 1U : 3U) << name;
  }
  const Result<trace::Steps> wrong = trace::steps_by(t, "mikro %d");
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().code, ErrorCode::kUsage);
  EXPECT_NE(wrong.error().hint.find("did you mean 'micro %d'?"), std::string::npos) << wrong.error().hint;
}

TEST(StepsBy, TheChoiceTravelsWithTheTrace) {
  TraceMaker m;
  m.step(3, 0, 300'000);
  for (int i = 0; i < 3; ++i) {
    m.range("micro", i * 100'000, i * 100'000 + 98'000);
    batch(m, 1 + i * 100, i * 100'000 + 1'000, i * 100'000 + 10'000);
  }
  trace::LoadOptions options;
  options.steps_by = "micro";
  const Result<trace::Trace> t = trace::load_bytes(m.json(), "made.json", options);
  ASSERT_TRUE(t);
  EXPECT_EQ(trace::find_steps(*t).steps.size(), 3U);
  options.steps_by = "nothing of this name";
  EXPECT_FALSE(trace::load_bytes(m.json(), "made.json", options));
}

TEST(StepCandidates, SayWhatElseThereIs) {
  TraceMaker m;
  m.step(3, 0, 200'000);
  for (int i = 0; i < 2; ++i) {
    m.range(fmt::format("micro {}", i), i * 100'000, i * 100'000 + 90'000);
    m.range("layer:h.0|Linear", i * 100'000, i * 100'000 + 89'000);
    batch(m, 1 + i * 100, i * 100'000 + 1'000, i * 100'000 + 10'000);
  }
  const std::vector<trace::StepCandidate> all = trace::step_candidates(m.load());
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].name, "ProfilerStep#%d");
  EXPECT_EQ(all[1].name, "micro %d");
  EXPECT_EQ(all[1].count, 2U);
  EXPECT_EQ(all[1].median, 90'000);
  EXPECT_DOUBLE_EQ(all[1].gpu_share, 1.0);
}

// Sequences as networks make them: a layer repeated between a head and a tail, the whole repeated.
struct Made {
  std::vector<std::uint32_t> sequence;
  std::size_t step = 0;
};
Made network(std::size_t head, std::size_t layer, std::size_t layers, std::size_t tail, std::size_t steps) {
  Made out;
  for (std::size_t s = 0; s < steps; ++s) {
    for (std::size_t i = 0; i < head; ++i) out.sequence.push_back(static_cast<std::uint32_t>(1'000 + i));
    for (std::size_t l = 0; l < layers; ++l) {
      for (std::size_t i = 0; i < layer; ++i) out.sequence.push_back(static_cast<std::uint32_t>(i));
    }
    for (std::size_t i = 0; i < tail; ++i) out.sequence.push_back(static_cast<std::uint32_t>(2'000 + i));
  }
  out.step = head + layer * layers + tail;
  return out;
}

RC_GTEST_PROP(Repetition, FindsTheStepAndNotItsLayers, ()) {
  const auto head = *rc::gen::inRange<std::size_t>(1, 6);
  const auto layer = *rc::gen::inRange<std::size_t>(2, 40);
  const auto layers = *rc::gen::inRange<std::size_t>(2, 12);
  const auto tail = *rc::gen::inRange<std::size_t>(0, 6);
  const auto steps = *rc::gen::inRange<std::size_t>(2, 6);
  const auto cut = *rc::gen::inRange<std::size_t>(0, 5);  // the recording began within a step
  Made made = network(head, layer, layers, tail, steps);
  RC_PRE(made.step >= 8);
  made.sequence.erase(made.sequence.begin(), made.sequence.begin() + static_cast<std::ptrdiff_t>(cut));
  RC_PRE(made.sequence.size() >= 2 * made.step);
  const std::vector<std::size_t> begins =
      trace::repeated_parts(made.sequence, std::vector<Ns>(made.sequence.size(), 0));
  RC_ASSERT(begins.size() >= 2);
  for (std::size_t i = 1; i < begins.size(); ++i) RC_ASSERT(begins[i] - begins[i - 1] == made.step);
}

RC_GTEST_PROP(Repetition, LayersOfOneStepAreNoSteps, ()) {
  const auto head = *rc::gen::inRange<std::size_t>(1, 6);
  const auto layer = *rc::gen::inRange<std::size_t>(2, 49);
  const auto layers = *rc::gen::inRange<std::size_t>(2, 40);
  const auto tail = *rc::gen::inRange<std::size_t>(1, 6);
  const Made made = network(head, layer, layers, tail, 1);
  RC_ASSERT(trace::repeated_parts(made.sequence, std::vector<Ns>(made.sequence.size(), 0)).empty());
}

RC_GTEST_PROP(Repetition, AHandfulIsNoStep, ()) {
  const auto layer = *rc::gen::inRange<std::size_t>(1, 8);
  const Made made = network(0, layer, 1, 0, 50);
  RC_ASSERT(trace::repeated_parts(made.sequence, std::vector<Ns>(made.sequence.size(), 0)).empty());
}

TEST(Repetition, LongRestsTellStepsFromLayersThatFollowOneAnother) {
  const Made made = network(0, 10, 12, 0, 1);  // three steps of four equal layers
  std::vector<Ns> rests(made.sequence.size(), 1'000);
  for (const std::size_t step : {40, 80}) rests[step] = 500'000;
  const std::vector<std::size_t> begins = trace::repeated_parts(made.sequence, rests);
  ASSERT_EQ(begins.size(), 3U);
  EXPECT_EQ(begins[1], 40U);
}

TEST(Repetition, ASequenceMadeToBeHardEnds) {
  std::vector<std::uint32_t> s(200'000, 1);
  s.back() = 2;
  EXPECT_TRUE(trace::repeated_parts(s, std::vector<Ns>(s.size(), 0)).empty());
}

TEST(Repetition, AKernelThatDiffersNowAndThenIsForgiven) {
  Made made = network(3, 20, 10, 4, 5);
  made.sequence[made.step * 2 + 17] = 9'999;
  const auto begins = trace::repeated_parts(made.sequence, std::vector<Ns>(made.sequence.size(), 0));
  ASSERT_EQ(begins.size(), 5U);
}

const trace::IsStep kAny = [](const std::vector<std::size_t>&) { return true; };

TEST(Anchors, StepsBetweenPreparationAndResults) {
  const Made made = network(3, 10, 6, 4, 12);
  std::vector<std::uint32_t> s(90, 5'000);
  s.insert(s.end(), made.sequence.begin(), made.sequence.end());
  for (std::uint32_t i = 0; i < 50; ++i) s.push_back(6'000 + i);
  const auto begins = trace::anchored_parts(s, std::vector<Ns>(s.size(), 0), kAny);
  ASSERT_GE(begins.size(), 12U);
  for (std::size_t i = 1; i < begins.size(); ++i) EXPECT_EQ(begins[i] - begins[i - 1], made.step);
}

TEST(Anchors, AnInsertedKernelShiftsNothing) {
  Made made = network(3, 10, 6, 4, 12);
  for (const std::size_t step : {10U, 7U, 2U}) {
    made.sequence.insert(made.sequence.begin() + static_cast<std::ptrdiff_t>(step * made.step + 20), 9'999);
  }
  made.sequence.push_back(7);  // so that the exact search finds nothing
  const auto begins = trace::anchored_parts(made.sequence, std::vector<Ns>(made.sequence.size(), 0), kAny);
  EXPECT_EQ(begins.size(), 12U);
}

TEST(Anchors, AStepInTenMayDiffer) {
  const auto with_odd = [](std::size_t every) {
    std::vector<std::uint32_t> s;
    for (std::size_t step = 0; step < 40; ++step) {
      for (std::uint32_t i = 0; i < 20; ++i) s.push_back(i);
      for (std::size_t i = 0; step % every == every - 1 && i < 10; ++i) s.push_back(100);
    }
    return trace::anchored_parts(s, std::vector<Ns>(s.size(), 0), kAny);
  };
  EXPECT_GE(with_odd(15).size(), 38U);
  EXPECT_LT(with_odd(4).size(), 12U);  // four kinds in turn, which repeat together
}

TEST(Anchors, TheShortestThatIsAStep) {
  const Made made = network(3, 10, 6, 4, 12);
  const trace::IsStep large = [](const std::vector<std::size_t>& begins) { return begins[1] - begins[0] > 30; };
  const auto begins = trace::anchored_parts(made.sequence, std::vector<Ns>(made.sequence.size(), 0), large);
  ASSERT_GE(begins.size(), 4U);
  EXPECT_EQ(begins[1] - begins[0], made.step);
}

RC_GTEST_PROP(Anchors, ChanceIsNoStep, ()) {
  const auto names = *rc::gen::inRange<std::uint32_t>(9, 200);
  const auto seed = *rc::gen::inRange<std::uint32_t>(1, 1'000'000);
  std::mt19937 random(seed);
  std::vector<std::uint32_t> s(3'000);
  for (std::uint32_t& name : s) name = static_cast<std::uint32_t>(random()) % names;
  const trace::IsStep large = [](const std::vector<std::size_t>& begins) { return begins[1] - begins[0] >= 8; };
  RC_ASSERT(trace::anchored_parts(s, std::vector<Ns>(s.size(), 0), large).empty());
}

TEST(ProfilerSteps, ARangeInsideAnotherIsAPartOfThatStep) {
  TraceMaker m;
  m.step(1, 0, 100'000).step(2, 10'000, 40'000).step(3, 100'000, 200'000);
  batch(m, 1, 1'000, 10'000);
  const trace::Steps steps = trace::find_steps(m.load());
  ASSERT_EQ(steps.steps.size(), 2U);
  EXPECT_EQ(steps.steps[1].number, 3);
}

TEST(WholeTrace, EndsWithTheGpuWhereStartTimesAreDerived) {
  TraceMaker m;
  m.launch(1, {1'000, 4'000}, "kernel", {6'000, 90'000});
  trace::Trace trace = m.load();
  const trace::Steps recorded = trace::find_steps(trace);
  ASSERT_EQ(recorded.source, trace::StepSource::kWholeTrace);
  EXPECT_FALSE(recorded.steps.front().thread_end);
  trace.diagnostics.add("starts_from_dependencies", Severity::kInfo, "start times follow from dependencies");
  const trace::Steps derived = trace::find_steps(trace);
  EXPECT_EQ(derived.steps.front().thread_end, 4'000);
  EXPECT_EQ(derived.steps.front().end, 90'000);
}

}  // namespace
}  // namespace foretrace::test
