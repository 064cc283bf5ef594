// CPU thread -> CPU thread: work handed over to another thread and joined.

#include <gtest/gtest.h>

#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;
using graph::TaskKind;

// Main: loss 10-20 us, optimizer 300-320. Thread 2: backward 60-280 with a launch.
TraceMaker backward() {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.op("loss", 10'000, 20'000).op("optimizer", 300'000, 320'000);
  m.thread(2).op("backward", 60'000, 280'000).launch(1, {100'000, 105'000}, "dgrad", {107'000, 200'000});
  return m;
}

TEST(GraphThread, WorkIsHandedOverAndJoined) {
  const TraceMaker m = backward();
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.why("backward"), DependencyKind::kThread);
  EXPECT_EQ(r.cost("loss"), 20'000);
  EXPECT_EQ(r.cost("optimizer"), 20'000) << "the main thread's wait is no cost";
  EXPECT_EQ(r.with("loss", 15'000).start("backward"), 55'000);  // 40 us behind the hand-over
  EXPECT_EQ(r.with("loss", 15'000).start("optimizer"), 295'000);
  EXPECT_EQ(r.with("backward", 15'000, 1).start("optimizer"), 300'000 - 160'000);  // 20 us behind the end of backward
  EXPECT_EQ(r.with("backward", 15'000, 1).step(), 240'000);
}

TEST(GraphThread, WithoutTheRuleBothThreadsGoTheirOwnWay) {
  const Replay r = Replay::without(backward(), DependencyKind::kThread);
  EXPECT_EQ(r.dependencies(DependencyKind::kThread), 0U);
  EXPECT_EQ(r.start("backward"), 0);
  EXPECT_EQ(r.start("optimizer"), 20'000);
}

TEST(GraphThread, TwoBurstsAreTwoHandOvers) {
  TraceMaker m;
  m.step(1, 0, 500'000);
  m.op("loss 1", 10'000, 20'000).op("loss 2", 200'000, 220'000).op("optimizer", 400'000, 410'000);
  m.thread(2);
  m.op("backward 1", 40'000, 180'000).launch(1, {100'000, 105'000}, "dgrad 1", {107'000, 150'000});
  m.op("backward 2", 250'000, 370'000).launch(2, {260'000, 265'000}, "dgrad 2", {267'000, 300'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.dependencies(DependencyKind::kThread), 4U);
  EXPECT_EQ(r.with("loss 1", 0).start("backward 1"), 20'000);
  EXPECT_EQ(r.with("loss 2", 0).start("backward 2"), 230'000);
  EXPECT_EQ(r.with("loss 2", 0).start("optimizer"), 380'000);
}

TEST(GraphThread, WorkConcurrentWithTheMainThreadIsNotWaitedFor) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.op("a", 10'000, 150'000).op("b", 150'000, 320'000);
  m.thread(2).op("loader", 60'000, 280'000).launch(1, {100'000, 105'000}, "copy", {107'000, 200'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.dependencies(DependencyKind::kThread), 0U);
  EXPECT_EQ(r.why("loader"), DependencyKind::kBorder);
  EXPECT_EQ(r.with("loader", 1'000'000, 1).step(), 400'000);
  EXPECT_EQ(Replay::without(m, DependencyKind::kBorder).start("loader"), 0);
}

TEST(GraphThread, AnIdleThreadsBookkeepingIsNotWaitedFor) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.op("a", 10'000, 50'000).op("b", 200'000, 320'000);
  m.thread(2).op("heartbeat", 60'000, 70'000).call("cudaEventQuery", {62'000, 63'000}, 9);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.dependencies(DependencyKind::kThread), 0U);
  EXPECT_EQ(r.cost("b"), 270'000);
}

TEST(GraphThread, AWatchdogIsDetached) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.op("a", 10'000, 50'000).op("b", 200'000, 320'000);
  m.thread(3).call("cudaEventQuery", {60'000, 61'000}, 9).call("cudaEventQuery", {160'000, 161'000}, 10);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.why("cudaEventQuery"), DependencyKind::kBorder);
  EXPECT_EQ(r.with("a", 0).start("b"), 0);
}

TEST(GraphThread, TwoThreadsMayWorkForTheMainOneAtOnce) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.op("a", 10'000, 50'000).op("b", 200'000, 320'000);
  m.thread(2).op("left", 60'000, 180'000).launch(1, {70'000, 75'000}, "k1", {77'000, 90'000}, 7);
  m.thread(3).op("right", 70'000, 150'000).launch(2, {80'000, 85'000}, "k2", {87'000, 90'000}, 8);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("left", 0, 1).start("b"), 200'000);  // the right one's own distance to the join is kept
  EXPECT_EQ(r.with("left", 0, 1).with("right", 0, 1).start("b"), 135'000);
  EXPECT_EQ(r.with("right", 165'000, 1).start("b"), 300'000);
}

TEST(GraphThread, LaunchesOfTheOtherThreadFillItsStream) {
  const Replay r(backward());
  EXPECT_EQ(r.graph.launch[r.task("dgrad")].value, r.task("cudaLaunchKernel"));
  EXPECT_EQ(r.with("loss", 0).start("dgrad"), 87'000);
  EXPECT_EQ(r.graph.kind[r.task("optimizer") - 1], TaskKind::kWait);
}

}  // namespace
}  // namespace foretrace::test
