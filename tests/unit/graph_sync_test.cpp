// GPU -> CPU: calls that wait. What they waited is no cost; it comes out of the simulation again.

#include <gtest/gtest.h>

#include "trace/latencies.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;

// A kernel on stream 7 (17-60 us) and a longer one on stream 8 (22-90 us), then the call under test.
TraceMaker two_streams(Ns end) {
  TraceMaker m;
  m.step(1, 0, end);
  m.launch(1, {10'000, 15'000}, "short", {17'000, 60'000}, 7);
  m.launch(2, {15'000, 20'000}, "long", {22'000, 90'000}, 8);
  return m;
}

TEST(GraphSync, AStreamSynchronisationWaitsForItsStreamAlone) {
  TraceMaker m = two_streams(100'000);
  m.call("cudaStreamSynchronize", {20'000, 69'000}, 3).sync_row("Stream Sync", {20'000, 69'000}, 3, 7);
  m.call("cudaDeviceSynchronize", {80'000, 96'000}, 4);
  const Replay r(m);
  expect_as_measured(r);
  const Ns alone = trace::default_latencies().sync_call;
  EXPECT_EQ(r.cost("cudaStreamSynchronize"), alone);
  EXPECT_EQ(r.start("cudaStreamSynchronize", 1), 69'000);  // the wait: 9 us behind the kernel's end
  EXPECT_EQ(r.with("short", 23'000).start("cudaStreamSynchronize", 1), 49'000);
  EXPECT_EQ(r.with("long", 168'000).start("cudaStreamSynchronize", 1), 69'000);
  EXPECT_EQ(r.with("short", 1'000).start("cudaStreamSynchronize", 1), 27'000);
  EXPECT_EQ(r.with("long", 168'000).step(), 200'000);  // the device-wide one waits for it
  const Replay dropped = Replay::without(m, DependencyKind::kSync);
  EXPECT_EQ(dropped.start("cudaStreamSynchronize", 1), 20'000 + alone);
  EXPECT_EQ(dropped.step(), 20'000 + 2 * alone + 11'000 + 4'000);  // two calls, the time between them and behind them
}

TEST(GraphSync, AStreamSynchronisationOfAnUnknownStreamWaitsForAll) {
  TraceMaker m = two_streams(100'000);
  m.call("cudaStreamSynchronize", {20'000, 95'000}, 3);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("long", 48'000).start("cudaStreamSynchronize", 1), 75'000);
}

TEST(GraphSync, AStreamSynchronisationOfAStreamWithoutKernelsWaitsForNothing) {
  TraceMaker m = two_streams(100'000);
  m.call("cudaStreamSynchronize", {20'000, 95'000}, 3).sync_row("Stream Sync", {20'000, 95'000}, 3, 99);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.dependencies(DependencyKind::kSync), 0U);
}

TEST(GraphSync, ADeviceSynchronisationWaitsForEveryStream) {
  TraceMaker m = two_streams(100'000);
  m.call("cudaDeviceSynchronize", {20'000, 95'000}, 3).sync_row("Context Sync", {20'000, 95'000}, 3, -1);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("long", 20'000).start("cudaDeviceSynchronize", 1), 65'000);  // now the short one is last
  EXPECT_EQ(r.with("short", 100'000).start("cudaDeviceSynchronize", 1), 122'000);
}

TEST(GraphSync, ACallThatFoundNothingToWaitForKeepsItsLength) {
  TraceMaker m = two_streams(200'000);
  m.call("cudaDeviceSynchronize", {20'000, 95'000}, 3);
  m.call("cudaDeviceSynchronize", {120'000, 127'000}, 4);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.cost("cudaDeviceSynchronize", 3), 7'000);
  // The first one, which waited, costs what the second one cost.
  EXPECT_EQ(r.cost("cudaDeviceSynchronize", 0), 7'000);
  // Work that takes longer makes the second wait too, with the return the first one showed.
  EXPECT_EQ(r.with("long", 168'000).start("cudaDeviceSynchronize", 4), 195'000 + 25'000 + 7'000);
}

TEST(GraphSync, WorkThatEndsBehindTheCallWasNotWaitedFor) {
  TraceMaker m = two_streams(100'000);
  m.call("cudaStreamSynchronize", {20'000, 30'000}, 3).sync_row("Stream Sync", {20'000, 30'000}, 3, 7);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.dependencies(DependencyKind::kSync), 0U);
}

TEST(GraphSync, AnEventSynchronisationWaitsForTheLatestThatFits) {
  TraceMaker m = two_streams(120'000);
  m.call("cudaEventSynchronize", {20'000, 63'000}, 3);
  m.call("cudaDeviceSynchronize", {70'000, 95'000}, 4);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("short", 53'000).start("cudaEventSynchronize", 1), 73'000);
  EXPECT_EQ(r.with("long", 78'000).start("cudaEventSynchronize", 1), 63'000);
}

TEST(GraphSync, AnEventSynchronisationThatDidNotWaitDependsOnNothing) {
  TraceMaker m = two_streams(120'000);
  m.call("cudaDeviceSynchronize", {30'000, 95'000}, 4).call("cudaEventSynchronize", {100'000, 101'000}, 3);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.dependencies(DependencyKind::kSync), 2U);  // the device-wide one's
}

TEST(GraphSync, AnEventQueryNeverWaits) {
  TraceMaker m = two_streams(120'000);
  m.call("cudaEventQuery", {30'000, 95'000}, 4);
  EXPECT_EQ(Replay(m).dependencies(DependencyKind::kSync), 0U);
}

TEST(GraphSync, APageableCopyBlocksItsCall) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "gemm", {17'000, 60'000});
  m.call("cudaMemcpyAsync", {20'000, 70'000}, 2).copy(2, "Memcpy DtoH (Device -> Pageable)", {61'000, 63'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.released("cudaMemcpyAsync"), 70'000);
  // The call waited for the kernel: a shorter kernel shortens it.
  EXPECT_EQ(r.with("gemm", 23'000).released("cudaMemcpyAsync"), 50'000);
  EXPECT_EQ(r.with("gemm", 23'000).step(), 80'000);
  EXPECT_EQ(r.with("Memcpy DtoH (Device -> Pageable)", 12'000).released("cudaMemcpyAsync"), 80'000);
  EXPECT_LT(Replay::without(m, DependencyKind::kSync).released("cudaMemcpyAsync"), 30'000);
}

TEST(GraphSync, ACopyLaunchedOnAnIdleStreamCostsItsCallTheWayThere) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.op("aten::to", 0, 90'000);
  m.call("cudaMemcpyAsync", {20'000, 45'000}, 2).copy(2, "Memcpy HtoD (Pageable -> Device)", {30'000, 43'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.cost("cudaMemcpyAsync"), 10'000);
  EXPECT_EQ(r.with("Memcpy HtoD (Pageable -> Device)", 1'000).released("cudaMemcpyAsync"), 33'000);
}

TEST(GraphSync, ACopyFromPinnedMemoryDoesNotBlock) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.call("cudaMemcpyAsync", {20'000, 45'000}, 2).copy(2, "Memcpy HtoD (Pinned -> Device)", {30'000, 43'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.dependencies(DependencyKind::kSync), 0U);
}

TEST(GraphSync, ASynchronousCopyBlocksWhateverItsMemory) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "gemm", {17'000, 60'000});
  m.call("cudaMemcpy", {20'000, 70'000}, 2).copy(2, "Memcpy DtoH (Device -> Pinned)", {61'000, 63'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("gemm", 23'000).released("cudaMemcpy"), 50'000);
}

}  // namespace
}  // namespace foretrace::test
