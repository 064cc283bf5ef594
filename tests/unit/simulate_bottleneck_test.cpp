// What a step's length follows: each resource in turn made the one that holds it up.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/simulate/simulate.hpp"
#include "trace_maker.hpp"

namespace foretrace::simulate {
namespace {

using test::Replay;
using test::TraceMaker;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Ns kUs = 1'000;

// One launch, one kernel, and a wait for it: the step follows whichever is long.
TraceMaker step_of(Ns cpu, Ns gpu, std::string_view kernel = "gemm") {
  TraceMaker m;
  m.op("aten::mm", 10 * kUs, 10 * kUs + cpu);
  const Ns launched = 10 * kUs + cpu;
  m.launch(1, {launched, launched + 5 * kUs}, kernel, {launched + 8 * kUs, launched + 8 * kUs + gpu});
  m.call("cudaDeviceSynchronize", {launched + 6 * kUs, launched + 12 * kUs + gpu}, 2);
  return m.step(3, 0, launched + 15 * kUs + gpu);
}

Bottleneck of(const TraceMaker& m) { return bottleneck(Replay(m).graph); }

TEST(Bottleneck, TheResourceThatShortensTheStep) {
  const Bottleneck cpu = of(step_of(900 * kUs, 50 * kUs));
  EXPECT_EQ(cpu.by, BoundBy::kCpu) << cpu.sentence();
  EXPECT_THAT(cpu.sentence(), StartsWith("CPU-bound: 10 % less CPU time shortens the step by 9."));
  const Bottleneck gpu = of(step_of(50 * kUs, 900 * kUs));
  EXPECT_EQ(gpu.by, BoundBy::kGpu) << gpu.sentence();
  EXPECT_THAT(gpu.sentence(), StartsWith("GPU-bound: 10 % less GPU time"));
  const Bottleneck network = of(step_of(50 * kUs, 900 * kUs, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"));
  EXPECT_EQ(network.by, BoundBy::kCommunication) << network.sentence();
}

// A third of the step each, one behind the other: no single one holds more than half.
TEST(Bottleneck, ThreeThirdsAreMixed) {
  TraceMaker m;
  m.op("aten::mm", 10 * kUs, 300 * kUs);
  m.launch(1, {300 * kUs, 305 * kUs}, "gemm", {310 * kUs, 610 * kUs});
  m.launch(2, {306 * kUs, 309 * kUs}, "ncclDevKernel_AllReduce_Sum_f32_RING_LL", {612 * kUs, 912 * kUs});
  m.call("cudaDeviceSynchronize", {311 * kUs, 915 * kUs}, 3).step(3, 0, 920 * kUs);
  const Bottleneck b = of(m);
  EXPECT_EQ(b.by, BoundBy::kMixed) << b.sentence();
  EXPECT_GT(b.all, 0.9);
}

TEST(Bottleneck, WaitingInACollectiveIsNotTransfer) {
  const graph::Graph g = Replay(step_of(50 * kUs, 900 * kUs, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")).graph;
  std::vector<Ns> transfer(g.cost.begin(), g.cost.end());
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.kind[t] == graph::TaskKind::kCollective) transfer[t] = 20 * kUs;
  }
  const Bottleneck b = bottleneck(g, {}, transfer);
  EXPECT_EQ(b.by, BoundBy::kOtherRanks) << b.sentence();
  EXPECT_LT(b.communication, 0.05);
  EXPECT_EQ(to_string(b.by), "other_ranks");
}

TEST(Bottleneck, NoShareExceedsTheCriticalPath) {
  for (const Ns cpu : {50 * kUs, 300 * kUs, 900 * kUs}) {
    for (const Ns gpu : {50 * kUs, 300 * kUs, 900 * kUs}) {
      const Replay r(step_of(cpu, gpu));
      const Bottleneck b = bottleneck(r.graph);
      const Breakdown parts = breakdown(r.graph, r.timeline);
      const auto share = [&](Ns part) { return static_cast<double>(part) / static_cast<double>(parts.step); };
      EXPECT_LE(b.cpu, share(parts.path_cpu) + 0.01);
      EXPECT_LE(b.gpu, share(parts.path_gpu) + 0.01);
    }
  }
}

TEST(Bottleneck, OfOtherCosts) {
  const graph::Graph g = Replay(step_of(900 * kUs, 50 * kUs)).graph;
  std::vector<Ns> cost(g.cost.begin(), g.cost.end());
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) cost[t] *= 100;
  }
  EXPECT_EQ(bottleneck(g, {cost, nullptr}).by, BoundBy::kGpu);
}

TEST(Bottleneck, AStepWithoutGpuWork) {
  TraceMaker m;
  m.op("aten::mm", 10 * kUs, 90 * kUs).step(3, 0, 100 * kUs);
  const trace::Trace trace = m.load();
  const Result<graph::Graph> g = graph::GraphBuilder(trace, trace::find_steps(trace)).build(0);
  if (!g) GTEST_SKIP() << "a step without GPU work has no graph";
  EXPECT_THAT(bottleneck(*g).sentence(), HasSubstr("CPU only"));
}

}  // namespace
}  // namespace foretrace::simulate
