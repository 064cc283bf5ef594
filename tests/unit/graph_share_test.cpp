// GPU -> GPU: a task that found the device full starts when another makes room, by ending or by reaching its last wave.

#include <gtest/gtest.h>

#include "trace/latencies.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;
using graph::kWhole;

// "large" on stream 20 from 17 to 117 us; "late" on stream 7, launched at 25 us, starts at `start`.
TraceMaker shared(Ns start, Waves waves) {
  TraceMaker m;
  m.step(1, 0, 2'000'000);
  m.launch(1, {10'000, 15'000}, "large", {17'000, 117'000}, 20, waves);
  m.op("between", 15'000, 20'000);
  m.launch(2, {20'000, 25'000}, "late", {start, start + 20'000}, 7, {1});
  return m;
}

TEST(GraphShare, ATaskStartsWhenAnotherEnds) {
  const TraceMaker m = shared(119'000, {2});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.why("late"), DependencyKind::kShare);
  EXPECT_EQ(r.with("large", 50'000).start("late"), 69'000);
  EXPECT_EQ(r.with("large", 150'000).start("late"), 169'000);
  EXPECT_EQ(r.with("large", 2'000).start("late"),
            25'000 + trace::default_latencies().launch_latency);  // nothing in its way but its launch
  const Replay dropped = Replay::without(m, DependencyKind::kShare);
  EXPECT_EQ(dropped.graph.notes.unexplained_lags, 1U);
  EXPECT_EQ(dropped.graph.notes.unexplained_time, 94'000);
  EXPECT_EQ(dropped.with("large", 50'000).start("late"), 119'000);
}

TEST(GraphShare, OneThatNoLongerHoldsTheDeviceIsIgnored) {
  const Replay r(shared(119'000, {2}));
  // Both launched later: the large one, pushed behind the other by more than the slack, is not waited for.
  graph::Graph g = r.graph;
  const std::uint32_t launch = r.task("cudaLaunchKernel", 0);
  for (std::uint32_t d = g.dep_begin[launch + 1]; d < g.dep_begin[launch + 2]; ++d) g.dep_lag[d] += 400'000;
  EXPECT_EQ(Replay(g).start("late"), 519'000);  // within the slack: still behind it
  for (std::uint32_t d = g.dep_begin[launch + 1]; d < g.dep_begin[launch + 2]; ++d) g.dep_lag[d] += 200'000;
  EXPECT_EQ(Replay(g).start("large"), 617'000);
  EXPECT_EQ(Replay(g).start("late"), 25'000 + trace::default_latencies().launch_latency);
}

TEST(GraphShare, ASmallOneThatHadJustEndedIsADependency) {
  const Replay r(shared(119'000, {0.2}));
  expect_as_measured(r);
  ASSERT_EQ(r.graph.soft_dependencies.size(), 1U);
  EXPECT_GT(r.graph.soft_dependencies[0].slack, kNsPerSecond);
}

TEST(GraphShare, ATaskStartsInTheLastWaveOfAnother) {
  const TraceMaker m = shared(87'000, {2});  // 70 % of the way through two waves
  const Replay r(m);
  EXPECT_EQ(r.start("late"), 87'000);
  ASSERT_EQ(r.graph.soft_dependencies.size(), 1U);
  EXPECT_EQ(r.graph.soft_dependencies[0].point, static_cast<std::uint32_t>(0.7 * kWhole));
  EXPECT_NEAR(static_cast<double>(r.with("large", 50'000).start("late")), 17'000 + 0.7 * 50'000, 2);
  EXPECT_EQ(Replay::without(m, DependencyKind::kShare).with("large", 50'000).start("late"), 87'000);
}

// Three streams with a kernel each that fills the device: the second and the third are launched at once and wait for the one in
// front; the third one is ready 100 us before the second begins.
TraceMaker queue_of_three() {
  TraceMaker m;
  m.step(1, 0, 4'000'000);
  m.launch(1, {10'000, 15'000}, "first", {17'000, 317'000}, 20, {4});
  m.launch(2, {20'000, 25'000}, "second", {312'000, 912'000}, 21, {4});
  m.launch(3, {30'000, 35'000}, "third", {905'000, 1'000'000}, 22, {4});
  return m;
}

TEST(GraphShare, AQueueForTheDeviceHoldsHoweverLongItTakes) {
  const Replay r(queue_of_three());
  expect_as_measured(r);
  EXPECT_EQ(r.why("third"), DependencyKind::kShare);
  // Four times the work in front: the third one becomes ready when it did and the second begins 900 us later.
  const Replay longer = r.with("first", 1'200'000);
  EXPECT_GT(longer.start("second"), 1'180'000);
  EXPECT_GT(longer.start("third"), longer.start("second") + 580'000);
}

TEST(GraphShare, OneThatIsAboutToEndHasMadeRoom) {
  // Half a wave does not fill the device, but a task that stood still for 200 us started 4 us before that one's end.
  TraceMaker m;
  m.step(1, 0, 2'000'000);
  m.launch(1, {10'000, 15'000}, "filling", {17'000, 900'000}, 20, {20});
  m.launch(2, {20'000, 25'000}, "small", {27'000, 230'000}, 21, {0.5});
  m.launch(3, {30'000, 35'000}, "late", {226'000, 300'000}, 22, {1});
  const Replay r(m);
  expect_as_measured(r);
  ASSERT_EQ(r.graph.soft_dependencies.size(), 1U);
  EXPECT_EQ(r.graph.soft_dependencies[0].from.value, r.task("small"));
  EXPECT_NEAR(static_cast<double>(r.with("small", 103'000).start("late")), 128'000, 100);
}

// A Turing SM holds half as many threads: what fills a data-centre GPU once takes two waves there.
TEST(GraphShare, WavesAreCountedByWhatAnSmHolds) {
  for (const char* gpu :
       {R"([{"id":0,"maxThreadsPerMultiprocessor":1024}])", R"([{"id":0,"computeMajor":7,"computeMinor":5}])"}) {
    TraceMaker m = shared(87'000, {1});
    m.properties = gpu;
    const Replay r(m);
    ASSERT_EQ(r.graph.soft_dependencies.size(), 1U) << gpu;
    EXPECT_EQ(r.graph.soft_dependencies[0].point, static_cast<std::uint32_t>(0.7 * kWhole)) << gpu;
  }
  // In its only wave, most of the way through it: nobody made room yet.
  EXPECT_TRUE(Replay(shared(70'000, {1})).graph.soft_dependencies.empty());
}

// XLA's profiles give the grid, not how much of it each SM gets.
TEST(GraphShare, WavesFollowFromTheGridAndTheSms) {
  const auto with_grid = [](const char* gpu) {
    TraceMaker m;
    m.step(1, 0, 2'000'000);
    m.call("cudaLaunchKernel", {10'000, 15'000}, 1);
    m.event(
        "kernel", "large", 0, 20, {17'000, 117'000},
        R"("stream":20,"device":0,"correlation":1,"grid":[640,2,5],"block":[64,1,1],"est. achieved occupancy %":100)");
    m.launch(2, {20'000, 25'000}, "late", {87'000, 107'000}, 7, {1});
    m.properties = gpu;
    return Replay(m);
  };
  // 6,400 blocks, 32 of them at once on each of 100 SMs: two waves, the second of which leaves room.
  const Replay two = with_grid(R"([{"id":0,"numSms":100,"maxThreadsPerMultiprocessor":2048}])");
  ASSERT_EQ(two.graph.soft_dependencies.size(), 1U);
  EXPECT_EQ(two.graph.soft_dependencies[0].point, static_cast<std::uint32_t>(0.7 * kWhole));
  // One of 64 fills less than the half of it; without the number of SMs nothing is known.
  EXPECT_TRUE(
      with_grid(R"([{"id":0,"numSms":6400,"maxThreadsPerMultiprocessor":2048}])").graph.soft_dependencies.empty());
}

// On stream 20 a kernel until 100 us, then `second`, launched before "late" of stream 7, which starts at 120 us.
TraceMaker queued(const char* second, Ns launched, Ns first_end = 100'000) {
  TraceMaker m;
  m.step(1, 0, 2'000'000);
  m.launch(1, {10'000, 15'000}, "first", {17'000, first_end}, 20, {0.1});
  m.launch(2, {launched, launched + 5'000}, second, {114'000, 400'000}, 20, {0.1});
  m.launch(3, {40'000, 45'000}, "late", {120'000, 140'000}, 7, {1});
  return m;
}

TEST(GraphShare, AQueueHoldsWorkBehindACollectiveThatBeganLate) {
  const Replay r(queued("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20'000));
  expect_as_measured(r);
  EXPECT_EQ(r.why("late"), DependencyKind::kShare);
  EXPECT_EQ(r.graph.notes.unexplained_lags, 0U);
  EXPECT_EQ(r.with("first", 43'000).start("late"), 80'000);  // both follow: it began 40 us earlier
  EXPECT_EQ(r.with("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 1'000).start("late"), 120'000);  // its end holds nothing
  // Neither an ordinary kernel nor a collective launched later stands in front of it in a queue.
  constexpr Ns kLongAgo = 69'000;  // too long for the end of the first one to be what both waited for
  EXPECT_EQ(Replay(queued("kernel", 20'000, kLongAgo)).graph.notes.unexplained_lags, 2U);
  EXPECT_EQ(Replay(queued("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 50'000, kLongAgo)).graph.notes.unexplained_lags,
            2U);
}

TEST(GraphShare, NoRoomIsMadeBeforeTheLastWaveNorByASmallKernel) {
  EXPECT_TRUE(Replay(shared(45'000, {2})).graph.soft_dependencies.empty());    // 28 %: before the last wave
  EXPECT_TRUE(Replay(shared(87'000, {0.5})).graph.soft_dependencies.empty());  // half a wave holds nothing up
  EXPECT_TRUE(Replay(shared(30'000, {2})).graph.soft_dependencies.empty());    // 5 us is a device's own gap
}

TEST(GraphShare, AnUnexplainedLagIsKeptUnlessStrict) {
  const TraceMaker m = shared(45'000, {2});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.graph.notes.unexplained_lags, 0U);  // 20 us exactly
  const TraceMaker longer = shared(45'001, {2});
  EXPECT_EQ(Replay(longer).graph.notes.unexplained_lags, 1U);
  graph::BuildOptions strict;
  strict.strict = true;
  EXPECT_EQ(Replay(longer, 0, strict).start("late"), 25'000 + trace::default_latencies().launch_latency);
  EXPECT_EQ(Replay(m, 0, strict).start("late"), 45'000);
}

TEST(GraphShare, TasksOfOneStreamDoNotShare) {
  TraceMaker m;
  m.step(1, 0, 300'000);
  m.launch(1, {10'000, 15'000}, "large", {17'000, 117'000}, 7, {2});
  m.launch(2, {20'000, 25'000}, "late", {150'000, 160'000}, 7, {1});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_TRUE(r.graph.soft_dependencies.empty());
  EXPECT_EQ(r.graph.notes.unexplained_lags, 1U);
}

}  // namespace
}  // namespace foretrace::test
