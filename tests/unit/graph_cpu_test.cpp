// CPU lanes become tasks: every instant of a thread belongs to exactly one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;
using graph::TaskKind;
using ::testing::ElementsAre;

// "cpu aten::mm 20000 @ 5000": kind, name, cost and measured start of the tasks of a lane.
std::vector<std::string> tiles(const Replay& r, std::size_t lane = 0) {
  std::vector<std::string> out;
  for (std::uint32_t t = r.graph.lanes[lane].begin; t < r.graph.lanes[lane].end; ++t) {
    out.push_back(fmt::format("{} {} {} @ {}", to_string(r.graph.kind[t]), r.graph.task_name(t), r.graph.cost[t],
                              r.graph.measured[t]));
  }
  return out;
}

TEST(GraphCpuTiling, NestedOperationsAreCutAtTheInnermost) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.op("outer", 0, 60'000).op("inner", 20'000, 40'000).call("cudaGetDevice", {25'000, 30'000});
  const Replay r(m);
  EXPECT_THAT(tiles(r), ElementsAre("begin  0 @ 0", "cpu outer 20000 @ 0", "cpu inner 5000 @ 20000",
                                    "call cudaGetDevice 5000 @ 25000", "cpu inner 10000 @ 30000",
                                    "cpu outer 20000 @ 40000", "cpu  40000 @ 60000"));
  expect_as_measured(r);
}

TEST(GraphCpuTiling, UncoveredTimeBelongsToWhatFollows) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.range("layer:fc", 5'000, 90'000).frame("train.py(3): forward", 6'000, 80'000);
  m.op("first", 10'000, 20'000).op("second", 50'000, 60'000).call("cudaGetDevice", {75'000, 78'000});
  const Replay r(m);
  EXPECT_THAT(tiles(r),
              ElementsAre("begin  0 @ 0", "cpu first 20000 @ 0", "cpu second 40000 @ 20000",
                          "cpu cudaGetDevice 15000 @ 60000", "call cudaGetDevice 3000 @ 75000", "cpu  22000 @ 78000"));
  // Removing an operation removes the time in front of it.
  EXPECT_EQ(r.with("second", 0).start("cudaGetDevice"), 20'000);
}

TEST(GraphLayers, WorkBetweenTwoLeavesIsTheirModules) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.range("layer:h.0.attn.c_attn|Linear", 5'000, 10'000).op("linear", 5'000, 10'000);
  m.op("softmax", 12'000, 18'000);
  m.range("layer:h.0.attn.c_proj|Linear", 20'000, 25'000).op("proj", 20'000, 25'000);
  m.op("residual", 30'000, 35'000);
  m.range("layer:h.1.ln|LayerNorm", 40'000, 45'000).op("norm", 40'000, 45'000);
  m.op("view", 46'000, 48'000);
  m.range("layer:head|Linear", 50'000, 55'000).op("head", 50'000, 55'000);
  m.op("loss", 60'000, 70'000);
  const Replay r(m);
  const auto layer_of = [&](std::string_view name) {
    const graph::Layer& l = r.graph.layers[r.graph.layer[r.task(std::string(name))].index()];
    return fmt::format("{}{}", r.graph.strings[l.name], l.synthetic ? " (synthetic)" : "");
  };
  EXPECT_EQ(layer_of("linear"), "h.0.attn.c_attn");
  EXPECT_EQ(layer_of("softmax"), "h.0.attn");
  EXPECT_EQ(layer_of("residual"), "h.0");           // the next block has not begun
  EXPECT_EQ(layer_of("view"), "view (synthetic)");  // only the model holds h.1.ln and head
  EXPECT_EQ(layer_of("loss"), "loss (synthetic)");  // behind the last leaf
}

TEST(GraphCpuTiling, OverlappingRowsOfAThreadAreClipped) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.op("a", 10'000, 50'000).op("b", 40'000, 70'000).op("c", 80'000, 90'000);
  const Replay r(m);
  EXPECT_THAT(tiles(r), ElementsAre("begin  0 @ 0", "cpu a 40000 @ 0", "cpu b 10000 @ 40000", "cpu c 40000 @ 50000",
                                    "cpu  10000 @ 90000"));
  expect_as_measured(r);
}

TEST(GraphCpuTiling, CallsThatOverlapTheirThreadsCallsKeepTheirOrder) {
  TraceMaker m;
  m.step(1, 0, 50'000);
  m.call("cudaFree", {10'000, 30'000}).call("cudaGetDevice", {20'000, 25'000}).call("cudaMalloc", {28'000, 40'000});
  const Replay r(m);
  EXPECT_THAT(tiles(r),
              ElementsAre("begin  0 @ 0", "cpu cudaFree 10000 @ 0", "call cudaFree 20000 @ 10000",
                          "call cudaGetDevice 0 @ 30000", "call cudaMalloc 10000 @ 30000", "cpu  10000 @ 40000"));
  EXPECT_EQ(r.step(), 50'000);
}

TEST(GraphCpuTiling, AnOperationOutsideTheStepCountsOnlyInside) {
  TraceMaker m;
  m.op("before", 0, 30'000);
  m.step(1, 20'000, 100'000);
  m.op("inside", 40'000, 50'000).op("over the end", 90'000, 140'000).op("after", 150'000, 160'000);
  const Replay r(m);
  EXPECT_THAT(tiles(r), ElementsAre("begin  0 @ 0", "cpu inside 30000 @ 0", "cpu over the end 50000 @ 30000"));
  EXPECT_EQ(r.step(), 80'000);
}

TEST(GraphCpuTiling, TheSumOfATiledLaneIsItsLength) {
  TraceMaker m;
  m.step(1, 1'000, 987'654);
  Ns at = 3'000;
  for (int i = 0; i < 40; ++i) {
    m.op("op", at, at + 9'001).op("child", at + 100, at + 5'003).call("cudaGetDevice", {at + 1'000, at + 1'777});
    at += 9'500 + i * 37;
  }
  const Replay r(m);
  Ns sum = 0;
  for (std::uint32_t t = r.graph.lanes[0].begin; t < r.graph.lanes[0].end; ++t) sum += r.graph.cost[t];
  EXPECT_EQ(sum, 986'654);
  expect_as_measured(r);
}

TEST(GraphCpuTiling, EveryTaskKnowsItsOperationAndEvent) {
  TraceMaker m;
  m.step(1, 0, 100'000);
  m.op("aten::mm", 10'000, 60'000);
  m.launch(1, {20'000, 25'000}, "gemm", {27'000, 50'000});
  m.call("cudaDeviceSynchronize", {70'000, 75'000}, 2);
  const Replay r(m);
  const std::uint32_t op = r.graph.event[r.task("aten::mm")].value;
  EXPECT_EQ(r.graph.op[r.task("cudaLaunchKernel")].value, op);
  EXPECT_EQ(r.graph.op[r.task("gemm")].value, op);
  EXPECT_EQ(r.graph.launch[r.task("gemm")].value, r.task("cudaLaunchKernel"));
  EXPECT_FALSE(r.graph.event[0].valid());
  EXPECT_EQ(r.graph.kind[0], TaskKind::kBegin);
}

TEST(GraphCpuTiling, TheLaneOrderIsAlwaysThere) {
  TraceMaker m;
  m.step(1, 0, 30'000);
  m.op("a", 0, 10'000).op("b", 10'000, 30'000);
  EXPECT_EQ(Replay::without(m, DependencyKind::kLane).start("b"), 10'000);
  EXPECT_EQ(Replay(m).with("a", 3'000).start("b"), 3'000);
}

}  // namespace
}  // namespace foretrace::test
