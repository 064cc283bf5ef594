// GPU -> GPU across streams: event record -> stream wait, named by the trace or inferred from the order of calls.

#include <gtest/gtest.h>

#include "trace/latencies.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::BuildOptions;
using graph::DependencyKind;

// Sharing the GPU would explain the same times: left out, so that the tests see the waits alone.
BuildOptions waits_only() {
  BuildOptions options;
  options.without = {DependencyKind::kShare};
  return options;
}
BuildOptions neither() {
  BuildOptions options;
  options.without = {DependencyKind::kShare, DependencyKind::kStreamWait};
  return options;
}

// "before" on stream 7 (17-117 us); a record; a wait on stream 20; "after" on stream 20, held back until 119 us.
TraceMaker one_wait() {
  TraceMaker m;
  m.step(1, 0, 300'000);
  m.launch(1, {10'000, 15'000}, "before", {17'000, 117'000}, 7);
  m.record(20'000, 2);
  m.stream_wait(22'000, 3, 20);
  m.launch(4, {25'000, 30'000}, "after", {119'000, 150'000}, 20);
  m.call("cudaDeviceSynchronize", {30'000, 300'000}, 5);
  return m;
}

TEST(GraphStreamWait, AForkWaitsForTheStreamOfTheRecord) {
  const TraceMaker m = one_wait();
  const Replay r(m, 0, waits_only());
  EXPECT_EQ(r.dependencies(DependencyKind::kStreamWait), 1U);
  EXPECT_EQ(r.why("after"), DependencyKind::kStreamWait);
  expect_as_measured(r);
  EXPECT_EQ(r.with("before", 150'000).start("after"), 169'000);
  EXPECT_EQ(r.with("before", 1'000).start("after"),
            30'000 + trace::default_latencies().launch_latency);  // its own launch
  EXPECT_EQ(Replay(m, 0, neither()).with("before", 150'000).start("after"), 119'000);
  BuildOptions strict = neither();
  strict.strict = true;
  EXPECT_EQ(Replay(m, 0, strict).start("after"),
            30'000 + trace::default_latencies().launch_latency);  // nothing explains the 89 us
}

TEST(GraphStreamWait, EveryStreamOfAForkWaits) {
  TraceMaker m;
  m.step(1, 0, 300'000);
  m.launch(1, {10'000, 15'000}, "root", {17'000, 117'000}, 7);
  m.record(20'000, 2);
  m.stream_wait(22'000, 3, 20).stream_wait(24'000, 4, 21);
  m.launch(5, {26'000, 30'000}, "left", {119'000, 150'000}, 20);
  m.launch(6, {30'000, 35'000}, "right", {120'000, 160'000}, 21);
  const Replay r(m, 0, waits_only());
  EXPECT_EQ(r.with("root", 150'000).start("left"), 169'000);
  EXPECT_EQ(r.with("root", 150'000).start("right"), 170'000);
}

TEST(GraphStreamWait, AJoinWaitsForEveryForkedStream) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.launch(1, {10'000, 12'000}, "root", {14'000, 20'000}, 7);
  m.record(12'000, 2);
  m.stream_wait(14'000, 3, 20).stream_wait(15'000, 4, 21);
  m.launch(5, {20'000, 25'000}, "left", {27'000, 127'000}, 20);
  m.launch(6, {25'000, 30'000}, "right", {32'000, 152'000}, 21);
  m.record(30'000, 7);
  m.stream_wait(32'000, 8, 7);
  m.record(34'000, 9);
  m.stream_wait(36'000, 10, 7);
  m.launch(11, {40'000, 45'000}, "joined", {154'000, 200'000}, 7);
  const Replay r(m, 0, waits_only());
  expect_as_measured(r);
  EXPECT_EQ(r.with("right", 10'000).start("joined"),
            127'000 + trace::default_latencies().kernel_gap);  // then the left one is last, at the usual gap
  EXPECT_EQ(r.with("left", 200'000).start("joined"), 227'000 + trace::default_latencies().kernel_gap);
  EXPECT_EQ(r.with("right", 200'000).start("joined"), 234'000);
  EXPECT_EQ(Replay(m, 0, neither()).with("left", 200'000).start("joined"), 154'000);
}

TEST(GraphStreamWait, AWaitInsideAForkTakesTheRecordsOfTheOtherStreams) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.launch(1, {10'000, 12'000}, "root", {14'000, 16'000}, 7);
  m.record(12'000, 2);
  m.stream_wait(14'000, 3, 20).stream_wait(15'000, 4, 21);
  m.launch(5, {20'000, 25'000}, "left", {27'000, 127'000}, 20);
  m.record(25'000, 6);  // of the left stream
  m.launch(7, {30'000, 35'000}, "right", {37'000, 60'000}, 21);
  m.stream_wait(38'000, 8, 21);  // launches since the record: an inner wait
  m.launch(9, {40'000, 45'000}, "right 2", {129'000, 200'000}, 21);
  const Replay r(m, 0, waits_only());
  expect_as_measured(r);
  EXPECT_EQ(r.with("left", 150'000).start("right 2"), 179'000);
  EXPECT_EQ(Replay(m, 0, neither()).with("left", 150'000).start("right 2"), 129'000);
}

TEST(GraphStreamWait, ARowThatNamesStreamAndRecordIsTaken) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.launch(1, {10'000, 12'000}, "recorded", {14'000, 84'000}, 20);
  m.record(13'000, 2);
  m.launch(3, {16'000, 18'000}, "later", {85'000, 86'000}, 20);  // behind the record: not waited for
  m.launch(4, {19'000, 20'000}, "other", {22'000, 60'000}, 7);   // the last launch is on another stream
  m.stream_wait(22'000, 5, 24, 20, 2);
  m.launch(6, {25'000, 30'000}, "after", {87'000, 100'000}, 24);
  const Replay r(m, 0, waits_only());
  expect_as_measured(r);
  EXPECT_EQ(r.dependencies(DependencyKind::kStreamWait), 1U);
  EXPECT_EQ(r.with("later", 50'000).start("after"), 87'000);
  EXPECT_EQ(r.with("recorded", 100'000).start("after"), 117'000);
}

TEST(GraphStreamWait, ARowThatNamesTheStreamOnlyTakesItsLastLaunch) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.launch(1, {10'000, 12'000}, "source", {14'000, 84'000}, 20);
  m.record(13'000, 2);
  m.launch(4, {19'000, 20'000}, "other", {22'000, 60'000}, 7);
  m.stream_wait(22'000, 5, 24, 20);
  m.launch(6, {25'000, 30'000}, "after", {87'000, 100'000}, 24);
  const Replay r(m, 0, waits_only());
  EXPECT_EQ(r.with("source", 100'000).start("after"), 117'000);
  EXPECT_EQ(r.with("other", 100'000).start("after"), 87'000);
}

TEST(GraphStreamWait, AWaitForOnesOwnStreamIsNone) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.launch(1, {10'000, 12'000}, "source", {14'000, 84'000}, 20);
  m.record(13'000, 2);
  m.launch(3, {14'000, 15'000}, "other", {22'000, 60'000}, 7);
  m.stream_wait(22'000, 5, 20, 20, 2);
  m.launch(6, {25'000, 30'000}, "after", {87'000, 100'000}, 20);
  EXPECT_EQ(Replay(m, 0, waits_only()).dependencies(DependencyKind::kStreamWait), 0U);
}

TEST(GraphStreamWait, AWaitForAStreamWithoutKernelsIsNone) {
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.launch(1, {10'000, 12'000}, "before", {14'000, 84'000}, 7);
  m.record(13'000, 2);
  m.stream_wait(22'000, 5, 20, 99, 2);
  m.launch(6, {25'000, 30'000}, "after", {87'000, 100'000}, 20);
  EXPECT_EQ(Replay(m, 0, waits_only()).dependencies(DependencyKind::kStreamWait), 0U);
}

TEST(GraphStreamWait, AnInferenceTheTimesContradictIsDropped) {
  TraceMaker m;
  m.step(1, 0, 300'000);
  m.launch(1, {10'000, 15'000}, "before", {17'000, 117'000}, 7);
  m.record(20'000, 2);
  m.stream_wait(22'000, 3, 20);
  m.launch(4, {25'000, 30'000}, "not waiting", {33'000, 60'000}, 20);
  const Replay r(m, 0, waits_only());
  expect_as_measured(r);
  EXPECT_EQ(r.graph.notes.refuted_waits, 1U);
  EXPECT_EQ(r.dependencies(DependencyKind::kStreamWait), 0U);
}

TEST(GraphStreamWait, WithoutAnyRowTheNextLaunchOfTheThreadWaits) {
  TraceMaker m;
  m.step(1, 0, 300'000);
  m.launch(1, {10'000, 15'000}, "before", {17'000, 117'000}, 7);
  m.call("cudaEventRecord", {20'000, 21'000}, 2).call("cudaStreamWaitEvent", {22'000, 23'000}, 3);
  m.launch(4, {25'000, 30'000}, "after", {119'000, 150'000}, 20);
  const Replay r(m, 0, waits_only());
  expect_as_measured(r);
  EXPECT_EQ(r.with("before", 150'000).start("after"), 169'000);
}

TEST(GraphStreamWait, ARowlessWaitIsIgnoredWhereOthersHaveRows) {
  TraceMaker m = one_wait();
  m.call("cudaStreamWaitEvent", {155'000, 156'000}, 30);
  m.launch(31, {160'000, 161'000}, "free", {163'000, 170'000}, 21);
  EXPECT_EQ(Replay(m, 0, waits_only()).dependencies(DependencyKind::kStreamWait), 1U);
}

TEST(GraphStreamWait, CollectivesAreWaitedForInOrderOfLaunch) {
  TraceMaker m;
  m.step(1, 0, 900'000);
  // Two buckets: the communication stream waits for each gradient; then the compute stream waits once per bucket.
  m.launch(1, {10'000, 12'000}, "grad 1", {14'000, 30'000}, 7);
  m.record(12'000, 2);
  m.stream_wait(14'000, 3, 16);
  m.launch(4, {16'000, 18'000}, "ncclDevKernel_AllReduce_1", {32'000, 232'000}, 16);
  m.launch(5, {20'000, 22'000}, "grad 2", {31'000, 50'000}, 7);
  m.record(22'000, 6);
  m.stream_wait(24'000, 7, 16);
  m.launch(8, {26'000, 28'000}, "ncclDevKernel_AllReduce_2", {233'000, 433'000}, 16);
  m.launch(9, {30'000, 32'000}, "grad 3", {51'000, 60'000}, 7);
  m.stream_wait(40'000, 10, 7);
  m.launch(11, {42'000, 44'000}, "copy bucket 1", {236'000, 250'000}, 7);
  m.stream_wait(46'000, 12, 7);
  m.launch(13, {48'000, 50'000}, "copy bucket 2", {437'000, 450'000}, 7);
  const Replay r(m, 0, waits_only());
  expect_as_measured(r);
  EXPECT_EQ(r.graph.kind[r.task("ncclDevKernel_AllReduce_1")], graph::TaskKind::kCollective);
  EXPECT_EQ(r.with("ncclDevKernel_AllReduce_1", 300'000).start("copy bucket 1"), 336'000);
  EXPECT_EQ(r.with("ncclDevKernel_AllReduce_2", 300'000).start("copy bucket 1"), 236'000);
  EXPECT_EQ(r.with("ncclDevKernel_AllReduce_2", 300'000).start("copy bucket 2"), 537'000);
  EXPECT_EQ(Replay(m, 0, neither()).with("ncclDevKernel_AllReduce_1", 300'000).start("copy bucket 1"), 236'000);
}

}  // namespace
}  // namespace foretrace::test
