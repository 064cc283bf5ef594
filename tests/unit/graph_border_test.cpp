// The step's borders: work from before it, work that outlives it, and traces that hold only a part of the story.

#include <gtest/gtest.h>

#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;
using graph::GraphBuilder;
using graph::TaskKind;

TEST(GraphBorder, WorkFromBeforeTheStepKeepsItsPlace) {
  TraceMaker m;
  m.op("before", 0, 40'000).launch(1, {10'000, 15'000}, "old", {30'000, 170'000});
  m.step(1, 100'000, 400'000);
  m.op("first", 100'000, 120'000).launch(2, {110'000, 115'000}, "new", {171'500, 200'000});
  m.call("cudaDeviceSynchronize", {120'000, 205'000}, 3);
  const Replay r(m);
  EXPECT_EQ(r.graph.notes.border_tasks, 1U);
  expect_as_measured(r);
  EXPECT_EQ(r.start("old"), 0);
  EXPECT_EQ(r.cost("old"), 70'000) << "only what reaches into the step";
  EXPECT_EQ(r.start("new"), 71'500);
  EXPECT_EQ(r.with("old", 20'000).start("new"), 21'500);
}

TEST(GraphBorder, WorkQueuedBeforeTheStepStartsInsideItAtItsMeasuredTime) {
  TraceMaker m;
  m.op("before", 0, 40'000).launch(1, {10'000, 15'000}, "queued", {130'000, 170'000});
  m.step(1, 100'000, 400'000);
  m.op("first", 100'000, 120'000);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.why("queued"), DependencyKind::kBorder);
  EXPECT_EQ(r.with("first", 5'000).start("queued"), 30'000);
  EXPECT_EQ(Replay::without(m, DependencyKind::kBorder).start("queued"), 0);
}

TEST(GraphBorder, WorkThatEndedBeforeTheStepIsNotInIt) {
  TraceMaker m;
  m.launch(1, {10'000, 15'000}, "old", {30'000, 90'000});
  m.step(1, 100'000, 400'000);
  m.op("first", 100'000, 120'000);
  EXPECT_EQ(Replay(m).count("old"), 0U);
}

// Steps of a CPU that launches two kernels of `kernel` ns in 100 us and never waits.
TraceMaker endless(int steps, Ns kernel) {
  TraceMaker m;
  Ns gpu = 0;
  int id = 1;
  for (int s = 0; s < steps; ++s) {
    const Ns begin = 100'000 * s;
    m.step(s, begin, begin + 100'000);
    for (int k = 0; k < 2; ++k) {
      const Ns call = begin + 10'000 + 40'000 * k;
      gpu = std::max(call + 5'000 + 2'000, id == 1 ? 0 : gpu + 1'000);
      m.launch(id++, {call, call + 5'000}, fmt::format("k{}", k), {gpu, gpu + kernel});
      gpu += kernel;
    }
  }
  return m;
}

TEST(GraphPeriod, WorkThatOutlivesTheStepMakesItPeriodic) {
  const TraceMaker m = endless(6, 149'000);
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const GraphBuilder builder(trace, steps);
  for (std::size_t s = 0; s < 5; ++s) {
    const Result<graph::Graph> g = builder.build(s);
    ASSERT_TRUE(g);
    EXPECT_TRUE(g->periodic);
    EXPECT_EQ(g->size(), 1U + 2 * 2 + 1 + 2) << "no work of other steps";
    const simulate::SteadyState steady = simulate::steady_state(*g);
    EXPECT_TRUE(steady.settled);
    // In the long run the GPU sets the pace: two kernels and two gaps (the first copy's own gap is the usual one).
    EXPECT_NEAR(static_cast<double>(steady.timeline.step), 300'000, 201) << "step " << s;
    EXPECT_EQ(simulate::simulate(*g).step, 100'000) << "one copy is the CPU's time alone";
  }
}

TEST(GraphPeriod, FasterKernelsMakeAFasterPeriodUntilTheCpuIsThePace) {
  const TraceMaker m = endless(6, 149'000);
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  graph::Graph g = *GraphBuilder(trace, steps).build(3);
  const auto scaled = [&](Ns cost) {
    std::vector<Ns> costs(g.cost.begin(), g.cost.end());
    for (std::size_t t = 0; t < g.size(); ++t) {
      if (is_gpu(g.kind[t])) costs[t] = cost;
    }
    return simulate::steady_state(g, {costs, nullptr}).timeline.step;
  };
  EXPECT_EQ(scaled(149'000), 300'000);
  EXPECT_EQ(scaled(74'000), 150'000);
  EXPECT_EQ(scaled(20'000), 100'000);
}

TEST(GraphPeriod, AStepThatEndsInADeviceWideWaitIsNotPeriodic) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "k", {17'000, 90'000}).call("cudaDeviceSynchronize", {20'000, 95'000}, 2);
  const Replay r(m);
  EXPECT_FALSE(r.graph.periodic);
  EXPECT_EQ(simulate::steady_state(r.graph).copies, 1U);
}

TEST(GraphPart, ATraceOfTheGpuAlone) {
  TraceMaker m;
  for (int i = 0; i < 6; ++i) {
    m.kernel(0, fmt::format("a{}", i), {10'000 * i, 10'000 * i + 6'000}, 7);
    m.kernel(0, fmt::format("b{}", i), {10'000 * i + 2'000, 10'000 * i + 5'000}, 8);
  }
  const Replay r(m);
  EXPECT_EQ(r.graph.notes.orphans, 12U);
  EXPECT_EQ(r.graph.kind[0], TaskKind::kBegin);
  expect_as_measured(r);
  EXPECT_EQ(r.step(), 56'000);
  EXPECT_EQ(r.with("a2", 16'000).start("a3"), 40'000) << "the stream goes on from its predecessor";
}

TEST(GraphPart, ATraceOfTheCpuAlone) {
  TraceMaker m;
  m.op("a", 10'000, 30'000).op("b", 40'000, 90'000);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.step(), 80'000);
  EXPECT_EQ(r.graph.lanes.size(), 1U);
}

TEST(GraphPart, AStepCutOffAtTheEndOfTheTrace) {
  // The kernels of the last launches and the end of the range are missing.
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "k", {17'000, 40'000});
  m.call("cudaLaunchKernel", {50'000, 55'000}, 2).call("cudaLaunchKernel", {60'000, 65'000}, 3);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.count("k"), 1U);
  EXPECT_EQ(r.count("cudaLaunchKernel"), 3U + 3U);  // each with the time in front of it
}

TEST(GraphPart, AStepWithoutWorkIsDeclined) {
  TraceMaker m;
  m.step(1, 0, 0).step(2, 10'000, 60'000).op("a", 20'000, 50'000);
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const GraphBuilder builder(trace, steps);
  const Result<graph::Graph> empty = builder.build(0);
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, ErrorCode::kDeclined);
  EXPECT_NE(empty.error().message.find("ProfilerStep#1"), std::string::npos);
  EXPECT_TRUE(builder.build(1));
  const Result<graph::Graph> beyond = builder.build(2);
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, ErrorCode::kDeclined);
}

TEST(GraphPart, TwoProcessesInOneFileWithTheSameIds) {
  // Both processes use correlation 1; each kernel belongs to the call that began last before it ended.
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "first", {17'000, 30'000}, 7);
  m.pid = 2;
  m.device = 1;
  m.step(1, 200'000, 300'000);
  m.launch(1, {210'000, 215'000}, "second", {217'000, 230'000}, 7);
  const Replay one(m, 0);
  const Replay two(m, 1);
  EXPECT_EQ(one.count("second"), 0U);
  EXPECT_EQ(two.count("first"), 0U);
  EXPECT_EQ(two.start("second"), 17'000);
  expect_as_measured(one);
  expect_as_measured(two);
}

TEST(GraphClock, KernelsBeforeTheirLaunchesMakeNoCycle) {
  // The second kernel claims to have run before the first, which a synchronisation in front of its launch waited for.
  TraceMaker m;
  m.step(1, 0, 200'000);
  m.launch(1, {10'000, 15'000}, "first", {17'000, 60'000});
  m.call("cudaDeviceSynchronize", {20'000, 65'000}, 2);
  m.launch(3, {70'000, 75'000}, "second", {5'000, 9'000});
  const Replay r(m);
  EXPECT_EQ(r.graph.notes.early_kernels, 1U);
  EXPECT_EQ(r.start("first"), 17'000);
  EXPECT_EQ(r.start("second"), 70'000);
  EXPECT_EQ(r.cost("second"), 4'000);
  EXPECT_EQ(r.step(), 200'000);
}

TEST(GraphClock, ReasonsThatContradictTheMeasuredOrderAreDropped) {
  // Launches of two threads on one stream, started in the other order: a queue of one would make each wait for the other, which it does
  // not do for launches behind its own.
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.queue_full(10'000, 20'000);
  m.launch(1, {10'000, 30'000}, "a", {90'000, 120'000});
  m.launch(2, {40'000, 45'000}, "b", {50'000, 80'000});
  m.op("tail", 45'000, 400'000);
  const Replay r(m);
  // What the first call waited for room is no cost: all comes 10 us earlier.
  EXPECT_EQ(r.start("b"), 40'000);
  EXPECT_EQ(r.start("a"), 80'000);
}

TEST(GraphClock, EventsDaysAwayAreLeftOut) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.op("a", 10'000, 90'000).launch(1, {20'000, 25'000}, "k", {27'000, 30'000});
  constexpr Ns kYear = 365LL * 24 * 3600 * kNsPerSecond;
  m.kernel(1, "a year later", {kYear, kYear + 1'000});
  m.op("outlasts everything", 95'000, 100 * kYear);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.count("a year later"), 0U);
  EXPECT_FALSE(r.graph.periodic);
}

TEST(GraphClock, AStepDaysAwayIsDeclined) {
  constexpr Ns kYear = 365LL * 24 * 3600 * kNsPerSecond;
  TraceMaker m;
  m.step(1, 0, 100'000).op("a", 10'000, 90'000).step(2, kYear, kYear + 100'000);
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const GraphBuilder builder(trace, steps);
  EXPECT_TRUE(builder.build(0));
  const Result<graph::Graph> g = builder.build(1);
  ASSERT_FALSE(g);
  EXPECT_EQ(g.error().code, ErrorCode::kDeclined);
  EXPECT_NE(g.error().message.find("days"), std::string::npos);
}

TEST(GraphPart, SeveralDevicesHaveStreamsOfTheSameNumber) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "on 0", {17'000, 50'000}, 7);
  m.device = 1;
  m.launch(2, {20'000, 25'000}, "on 1", {27'000, 60'000}, 7);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.graph.lanes.size(), 3U);
  EXPECT_EQ(r.with("on 0", 200'000).start("on 1"), 27'000);
}

}  // namespace
}  // namespace foretrace::test
