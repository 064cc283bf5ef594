// CPU -> GPU: launches, stream order, and launch queues that fill up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/latencies.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;

TEST(GraphLaunch, AKernelStartsItsMeasuredLatencyAfterItsCall) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.op("aten::mm", 0, 20'000).launch(1, {10'000, 15'000}, "gemm", {17'300, 40'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.why("gemm"), DependencyKind::kLaunch);
  EXPECT_EQ(r.with("aten::mm", 4'000).start("gemm"), 11'300);          // 6 us earlier
  EXPECT_EQ(r.with("cudaLaunchKernel", 9'000).start("gemm"), 21'300);  // a longer call, the same latency behind it
  EXPECT_EQ(Replay::without(m, DependencyKind::kLaunch).start("gemm"), 0);
}

TEST(GraphLaunch, ALatencyMayBeNegative) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "gemm", {13'500, 40'000});
  const Replay r(m);
  expect_as_measured(r);
  // A call that costs nothing is not overtaken by its kernel.
  EXPECT_EQ(r.with("cudaLaunchKernel", 0, 1).start("gemm"), 10'000);
}

TEST(GraphLaunch, AKernelThatStartsBeforeItsLaunchIsMovedToIt) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "gemm", {8'000, 40'000});
  const Replay r(m);
  EXPECT_EQ(r.graph.notes.early_kernels, 1U);
  EXPECT_EQ(r.start("gemm"), 10'000);
  EXPECT_EQ(r.step(), 100'000);
}

TEST(GraphLaunch, AKernelFollowsTheOneBeforeItWithItsOwnGap) {
  TraceMaker m;
  m.step(1, 0, 200'000);
  m.launch(1, {10'000, 15'000}, "first", {17'000, 60'000});
  m.launch(2, {20'000, 25'000}, "second", {61'500, 90'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.why("second"), DependencyKind::kLane);
  EXPECT_EQ(r.with("first", 20'000).start("second"), 38'500);
  // Much shorter, and the second waits for its own launch, with the usual latency.
  EXPECT_EQ(r.with("first", 1'000).start("second"), 25'000 + trace::default_latencies().launch_latency);
  graph::BuildOptions no_gaps;
  no_gaps.device_gaps = false;
  const Replay tight(m, 0, no_gaps);
  EXPECT_EQ(tight.start("first"), 15'000 + trace::default_latencies().launch_latency);
  EXPECT_EQ(tight.start("second"), tight.end("first"));
}

TEST(GraphLaunch, TheUsualLatencyIsTheTracesOwn) {
  TraceMaker m;
  m.step(1, 0, 1'000'000);
  // Four launches on an idle stream, 2.0 to 2.3 us behind their calls, then one that waits for the fourth.
  for (int i = 0; i < 4; ++i) {
    const Ns at = 100'000 * i;
    m.launch(i + 1, {at + 10'000, at + 15'000}, "k", {at + 17'000 + 100 * i, at + 60'000});
  }
  m.launch(9, {320'000, 325'000}, "last", {361'000, 400'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("k", 1'000, 3).start("last"), 325'000 + 2'200);  // upper median of 2.0, 2.1, 2.2, 2.3
}

TEST(GraphLaunch, ACallOfAnotherProcessDoesNotLaunch) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "ours", {17'000, 30'000});
  m.pid = 2;
  m.launch(2, {40'000, 45'000}, "theirs", {47'000, 60'000}, 8);
  m.op("their op", 50'000, 60'000);
  const Replay r(m);
  EXPECT_EQ(r.count("theirs"), 0U);
  EXPECT_EQ(r.count("their op"), 0U);
  EXPECT_EQ(r.graph.notes.foreign_events, 2U);
  expect_as_measured(r);
}

TEST(GraphLaunch, OrphansKeepTheirPlace) {
  TraceMaker m;
  m.step(1, 0, 200'000);
  m.op("aten::mm", 0, 50'000).kernel(77, "orphan", {30'000, 50'000}).kernel(78, "next", {55'000, 60'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.graph.notes.orphans, 2U);
  EXPECT_EQ(r.graph.notes.border_tasks, 1U) << "the other one follows it";
  EXPECT_EQ(r.why("orphan"), DependencyKind::kBorder);
  EXPECT_EQ(r.with("orphan", 25'000).start("next"), 60'000);  // the one behind it follows it
  EXPECT_EQ(Replay::without(m, DependencyKind::kBorder).start("orphan"), 0);
}

// A CPU that launches `n` kernels of `length` with calls of 5 us, on a stream whose queue holds `depth` launches.
// rows: with 'Command Buffer Full' rows, as newer profilers write them.
TraceMaker full_queue(int n, int depth, Ns length, Ns lag, bool rows) {
  TraceMaker m;
  constexpr Ns kCall = 5'000;
  constexpr Ns kLatency = 2'000;
  constexpr Ns kGap = 1'000;
  std::vector<Ns> starts;
  Ns cpu = 10'000;
  Ns gpu = 0;
  for (int i = 0; i < n; ++i) {
    const Ns begin = cpu;
    const Ns release = i >= depth ? std::max(begin, starts[static_cast<std::size_t>(i - depth)] + lag) : begin;
    if (rows && release > begin) m.queue_full(begin, release);
    cpu = release + kCall;
    gpu = std::max(cpu + kLatency, gpu + (i > 0 ? kGap : 0));
    starts.push_back(gpu);
    m.launch(i + 1, {begin, cpu}, fmt::format("k{}", i), {gpu, gpu + length});
    gpu += length;
  }
  m.call("cudaDeviceSynchronize", {cpu, gpu + 8'000}, 90'000);
  m.step(1, 0, gpu + 8'000);
  return m;
}

TEST(GraphLaunchQueue, ABlockedCallStartsWhenThereIsRoomAgain) {
  const TraceMaker m = full_queue(12, 4, 50'000, 500, true);
  const Replay r(m);
  EXPECT_EQ(r.graph.lanes.back().queue_depth, 4U);
  EXPECT_EQ(r.graph.lanes.back().queue_lag, 500);
  EXPECT_TRUE(r.graph.notes.queue_depth_measured);
  EXPECT_EQ(r.step(), r.graph.traced);
  for (int i = 0; i < 12; ++i) {
    const std::uint32_t kernel = r.task(fmt::format("k{}", i));
    EXPECT_EQ(r.timeline.start[kernel], r.graph.measured[kernel]) << i;
    const std::uint32_t call = r.graph.launch[kernel].value;
    EXPECT_EQ(r.graph.cost[call], 5'000) << "waiting is no cost";
    if (i >= 5) {
      EXPECT_EQ(r.timeline.cause_kind[call], DependencyKind::kQueue);
      EXPECT_EQ(r.timeline.start[call], r.start(fmt::format("k{}", i - 4)) + 500);
    }
  }
  // With kernels a quarter as long, the CPU waits less: what was waiting is not work.
  graph::Graph fast = r.graph;
  for (std::uint32_t t = 0; t < fast.size(); ++t) {
    if (is_gpu(fast.kind[t])) fast.cost[t] /= 4;
  }
  // 12 kernels of 12.5 us behind each other from the first launch on, and the return of the synchronisation.
  EXPECT_EQ(Replay(fast).step(), 17'000 + 12 * 12'500 + 11 * 1'000 + 8'000);

  const Replay unbounded = Replay::without(m, DependencyKind::kQueue);
  EXPECT_EQ(unbounded.graph.lanes.back().queue_depth, 0U);
  EXPECT_EQ(unbounded.timeline.start[unbounded.graph.launch[unbounded.task("k11")].index()], 10'000 + 11 * 5'000);
}

TEST(GraphLaunchQueue, WithoutRowsLongCallsTellTheDepth) {
  const TraceMaker m = full_queue(400, 300, 200'000, 0, false);
  const Replay r(m);
  EXPECT_TRUE(r.graph.notes.queue_depth_measured);
  EXPECT_EQ(r.graph.lanes.back().queue_depth, 300U);
  EXPECT_EQ(r.step(), r.graph.traced);
  const std::uint32_t last = r.graph.launch[r.task("k399")].value;
  EXPECT_EQ(r.graph.cost[last], 5'000);
  EXPECT_EQ(r.timeline.start[last], r.start("k99"));
  EXPECT_EQ(r.start("k399"), r.graph.measured[r.task("k399")]);
}

TEST(GraphLaunchQueue, WithoutBlockedCallsTheUsualDepthHolds) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.launch(1, {10'000, 15'000}, "gemm", {17'000, 40'000});
  const Replay r(m);
  EXPECT_FALSE(r.graph.notes.queue_depth_measured);
  EXPECT_EQ(r.graph.lanes.back().queue_depth, 1021U);
}

TEST(GraphLaunchQueue, EachStreamHasItsOwnDepth) {
  TraceMaker m = full_queue(12, 4, 50'000, 500, true);
  // One that never waited holds at least what was seen in it, and as many as usual.
  m.launch(70, {1'000, 6'000}, "aside", {9'000, 400'000}, 20);
  const Replay r(m);
  for (const graph::GraphLane& lane : r.graph.lanes) {
    if (lane.kind != graph::GraphLaneKind::kGpu) continue;
    EXPECT_EQ(lane.queue_depth, lane.stream == 20 ? 1021U : 4U);
  }
}

TEST(GraphCudaGraph, OneLaunchOwnsAllItsKernels) {
  TraceMaker m;
  m.step(1, 0, 300'000);
  m.op("replay", 0, 30'000).call("cudaGraphLaunch", {10'000, 30'000}, 5);
  m.kernel(5, "a", {14'000, 50'000}, 7).kernel(5, "b", {50'400, 80'000}, 7);
  m.kernel(5, "c", {50'600, 120'000}, 9);   // starts 0.6 us behind a: inside a graph that is a dependency
  m.kernel(5, "d", {120'500, 150'000}, 7);  // follows c, not b
  m.call("cudaDeviceSynchronize", {30'000, 155'000}, 6);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.graph.launch[r.task("d")].value, r.task("cudaGraphLaunch", 0));
  // It began to run when an eighth of the call was done, and the rest of the call does not hold it.
  EXPECT_NEAR(static_cast<double>(r.with("cudaGraphLaunch", 2'000).start("a")),
              static_cast<double>(10'000 + 250 + trace::default_latencies().launch_latency), 20);
  EXPECT_EQ(r.with("replay", 5'000).start("a"), 9'000);
  EXPECT_EQ(r.with("a", 16'000).start("b"), 30'400);
  EXPECT_EQ(r.with("c", 9'400).start("d"),
            80'000 + trace::default_latencies().kernel_gap);  // now b holds it, at the usual gap
  EXPECT_EQ(r.with("c", 59'400).start("d"), 110'500);
  EXPECT_EQ(Replay::without(m, DependencyKind::kLaunch).start("a"), 0);
}

}  // namespace
}  // namespace foretrace::test
