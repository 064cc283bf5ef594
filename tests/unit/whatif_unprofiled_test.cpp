// The step without the profiler: what comes off is the profiler's, and which measured steps can be true.

#include <gmock/gmock.h>

#include "foretrace/host/measured_step.hpp"
#include "foretrace/host/unprofiled.hpp"
#include "foretrace/memory/memory.hpp"
#include "foretrace/report/report.hpp"
#include "trace_maker.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::whatif {
namespace {

using test::Replay;
using test::TraceMaker;
using testing::HasSubstr;

constexpr Ns kUs = 1'000;

/// A step whose CPU bounds it: 200 launches a good 100 us apart, of which without the profiler about half is left. Behind
/// the first half of them comes what `between` writes; it is told when to begin and says when it ends.
template <class Between>
graph::Graph launching_step(Between between) {
  TraceMaker m;
  Ns at = 10 * kUs;
  for (int i = 1; i <= 200; ++i) {
    m.op("aten::add", at, at + 100 * kUs);
    m.launch(i, {at + 60 * kUs, at + 80 * kUs}, "add", {at + 90 * kUs, at + 95 * kUs});
    at += 110 * kUs;
    if (i == 100) at = between(m, at);
  }
  m.step(3, 0, at);
  return Replay(m).graph;
}

graph::Graph plain_step() {
  return launching_step([](TraceMaker&, Ns at) { return at; });
}

Ns unprofiled_step(const graph::Graph& g) { return host::unprofiled(g, std::nullopt).step; }

TEST(Unprofiled, TheProfilersTimeComesOff) {
  const graph::Graph g = plain_step();
  EXPECT_LT(unprofiled_step(g), g.traced * 3 / 4);
}

TEST(Unprofiled, ARangeThatSleepsKeepsItsTime) {
  const Ns plain = unprofiled_step(plain_step());
  for (const Ns sleep : {5'000 * kUs, 20'000 * kUs}) {
    const graph::Graph g = launching_step([&](TraceMaker& m, Ns at) {
      m.range("sleep", at, at + sleep);
      return at + sleep;
    });
    EXPECT_NEAR(static_cast<double>(unprofiled_step(g) - plain), static_cast<double>(sleep),
                0.05 * static_cast<double>(plain));
  }
}

TEST(Unprofiled, ManyShortSleepsKeepTheirTime) {
  TraceMaker m;
  Ns at = 10 * kUs;
  for (int i = 1; i <= 200; ++i) {
    m.op("aten::add", at, at + 100 * kUs);
    m.launch(i, {at + 60 * kUs, at + 80 * kUs}, "add", {at + 90 * kUs, at + 95 * kUs});
    at += 500 * kUs;  // 0.4 ms of nothing before the next
  }
  m.step(3, 0, at);
  const graph::Graph g = Replay(m).graph;
  EXPECT_GT(unprofiled_step(g), g.traced * 3 / 4);
}

TEST(Unprofiled, LoadingDataInManyOperationsKeepsItsTime) {
  const Ns plain = unprofiled_step(plain_step());
  const Ns loads = 50'000 * kUs;
  const graph::Graph g = launching_step([&](TraceMaker& m, Ns at) {
    m.range("load_batch", at, at + loads);
    for (Ns t = at; t + 100 * kUs <= at + loads; t += 100 * kUs) m.op("aten::stack", t + 5 * kUs, t + 95 * kUs);
    return at + loads;
  });
  EXPECT_GT(unprofiled_step(g) - plain, loads - 3'000 * kUs);
}

/// A range of the loader that takes `loads`, in the middle of 200 launches.
graph::Graph loading_step(Ns loads) {
  return launching_step([&](TraceMaker& m, Ns at) {
    m.range("load_batch", at, at + loads);
    return at + loads;
  });
}

Ns part_of(const graph::Graph& g, std::size_t part) {
  Ns sum = 0;
  for (std::size_t t = 0; t < g.size(); ++t) sum += host::step_part(g, t) == part ? g.cost[t] : 0;
  return sum;
}

// A measured step that is longer than the trace says shows slower storage rather than a slower interpreter: launches are alike in every
// step, loading is not.
TEST(Unprofiled, AMeasuredStepMovesLoadingMoreThanLaunches) {
  const graph::Graph g = loading_step(50'000 * kUs);
  const Ns today = unprofiled_step(g);
  const host::CpuPrior prior;
  const host::Unprofiled longer = host::unprofiled(g, today + 20'000 * kUs, prior);
  const host::Unprofiled as_expected = host::unprofiled(g, std::nullopt, prior);
  const graph::Graph slow = host::apply(g, longer.factors, prior);
  const graph::Graph usual = host::apply(g, as_expected.factors, prior);
  EXPECT_NEAR(static_cast<double>(longer.step), static_cast<double>(today + 20'000 * kUs),
              0.02 * static_cast<double>(today));
  EXPECT_GT(part_of(slow, host::kLoadingPart) - part_of(usual, host::kLoadingPart), 15'000 * kUs);
}

// The recorder timed the forward pass, loading in it: what it takes longer is divided by how well either part is known.
TEST(Unprofiled, ATimedPhaseMovesLoadingMoreThanLaunches) {
  const graph::Graph g = loading_step(50'000 * kUs);
  host::CpuPrior prior;
  const Ns expected = part_of(host::apply(g, host::prior_factors(g, prior), prior), host::kLoadingPart);
  EXPECT_EQ(expected, 50'000 * kUs);
  prior.timed_share[0] = 1.2;
  EXPECT_GT(part_of(host::apply(g, host::prior_factors(g, prior), prior), host::kLoadingPart), 65'000 * kUs);
  prior.timed_share[0] = 0.6;
  EXPECT_LT(part_of(host::apply(g, host::prior_factors(g, prior), prior), host::kLoadingPart), 45'000 * kUs);
}

// Nobody timed the step: it is known as well as its loading is.
TEST(Unprofiled, LoadingWidensTheBand) {
  const host::Unprofiled loads = host::unprofiled(loading_step(50'000 * kUs), std::nullopt);
  const host::Unprofiled launches = host::unprofiled(plain_step(), std::nullopt);
  const auto above = [](const host::Unprofiled& u) {
    return static_cast<double>(u.high) / static_cast<double>(u.step);
  };
  EXPECT_GT(above(loads), 1.3);
  EXPECT_GT(above(loads), above(launches) + 0.05);
}

/// Backward is handed to another thread, which begins `delay` later.
graph::Graph handed_over(Ns delay) {
  TraceMaker m;
  Ns at = 10 * kUs;
  int c = 0;
  const auto launches = [&](int count) {
    for (int i = 0; i < count; ++i) {
      ++c;
      m.op("aten::add", at, at + 100 * kUs);
      m.launch(c, {at + 60 * kUs, at + 80 * kUs}, "add", {at + 90 * kUs, at + 95 * kUs});
      at += 110 * kUs;
    }
  };
  launches(60);
  at += delay;
  m.thread(2);
  launches(60);
  m.thread(1);
  m.op("aten::item", at, at + 50 * kUs);
  at += 100 * kUs;
  m.step(3, 0, at);
  return Replay(m).graph;
}

TEST(Unprofiled, PythonInABackwardPassKeepsItsTime) {
  const auto step = [](Ns hook) {
    TraceMaker m;
    Ns at = 10 * kUs;
    int c = 0;
    const auto launches = [&](int count, Ns behind) {
      for (int i = 0; i < count; ++i) {
        ++c;
        m.op("aten::add", at, at + 12 * kUs);
        m.launch(c, {at + 4 * kUs, at + 10 * kUs}, "add", {at + 11 * kUs, at + 12 * kUs});
        at += 14 * kUs + behind;
      }
    };
    launches(20, 0);
    m.thread(2);
    launches(200, hook);
    m.launch(++c, {at + 4 * kUs, at + 10 * kUs}, "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
             {at + 11 * kUs, at + 12 * kUs});
    at += 14 * kUs;
    m.thread(1);
    m.op("aten::item", at, at + 50 * kUs);
    m.step(3, 0, at + 100 * kUs);
    return unprofiled_step(Replay(m).graph);
  };
  const Ns hooks = 200 * 80 * kUs;
  EXPECT_GT(step(80 * kUs) - step(0), hooks * 85 / 100);
}

TEST(Unprofiled, AWaitForAnotherThreadKeepsItsTime) {
  const graph::Graph g = handed_over(8'000 * kUs);  // no profiler delays a hand-over that long
  EXPECT_GT(unprofiled_step(g), 8'000 * kUs + (g.traced - 8'000 * kUs) / 4);
}

TEST(Unprofiled, AHandOverThatTheProfilerDelayedIsShorter) {
  const Ns prompt = unprofiled_step(handed_over(0));
  EXPECT_NEAR(static_cast<double>(unprofiled_step(handed_over(1'500 * kUs)) - prompt), 300e3, 60e3);
}

TEST(MeasuredStep, TheRangeOfWhatCanBeTrue) {
  const graph::Graph g = plain_step();
  const Ns replayed = simulate::steady_state(g).timeline.step;
  const host::PlausibleRange range = host::plausible_range(g, replayed);
  const auto step_of = [&](double ms) { return host::plausible_step(g, replayed, ms); };
  EXPECT_EQ(range.gpu_busy, 200 * 5 * kUs);
  EXPECT_EQ(range.traced, g.traced);
  const double traced = to_ms(g.traced);
  EXPECT_EQ(step_of(traced).value_or(0), g.traced);
  EXPECT_TRUE(step_of(traced * 1.1));  // steps vary
  for (const double wrong : {0.0, -1.0, to_ms(range.gpu_busy) * 0.8, traced * 2, 1e300,
                             std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const Result<Ns> step = step_of(wrong);
    ASSERT_FALSE(step) << wrong;
    EXPECT_EQ(step.error().code, ErrorCode::kUsage);
    EXPECT_THAT(step.error().message, HasSubstr("impossible"));
  }
  EXPECT_THAT(step_of(traced / 1e3).error().hint, HasSubstr("seconds? in milliseconds that is"));
  EXPECT_THAT(step_of(traced * 1e3).error().hint, HasSubstr("microseconds?"));
}

TEST(LargestBatch, DoesNotDependOnTheFactorAskedFor) {
  Result<trace::Trace> trace = trace::load(std::string(FORETRACE_SOURCE_DIR) + "/examples/resnet50-h200.json.gz");
  ASSERT_TRUE(trace);
  Result<analysis::Baseline> b = analysis::make_baseline(*trace, std::nullopt, std::nullopt);
  ASSERT_TRUE(b);
  std::vector<Prediction> predictions;
  for (const char* text : {"batch:x=2", "batch:x=0.0001", "batch:x=0.3", "batch:x=1000", "batch:x=1e9"}) {
    predictions.push_back(analysis::predict(*b, {*parse_use(text)}));
  }
  const report::WhatIfReport report{b->figures, predictions};
  const std::optional<double> first = report.predictions[0].largest_batch;
  ASSERT_TRUE(first);
  EXPECT_TRUE(report.predictions[0].fits.value_or(false));
  EXPECT_FALSE(report.predictions[3].fits.value_or(true));
  for (const Prediction& p : report.predictions) EXPECT_EQ(p.largest_batch, first) << p.whatif;
  // At that factor it fits, and a little above it does not.
  for (const auto& [factor, fits] : {std::pair(*first * 0.999, true), std::pair(*first * 1.001, false)}) {
    const Prediction p = predict(b->model, {*parse_use(fmt::format("batch:x={}", factor))}, std::nullopt);
    EXPECT_EQ(p.fits, fits) << factor;
  }
  const std::string json = report::to_json(report);
  EXPECT_THAT(json, HasSubstr("\"fits\": true"));
  EXPECT_THAT(json, HasSubstr("\"samples\": 2"));
  EXPECT_THAT(report::to_text(report, {}), HasSubstr("samples/s"));
}

}  // namespace
}  // namespace foretrace::whatif
