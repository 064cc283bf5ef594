// Waiting is a dependency: what a queue, an earlier step or a graph in front made a task wait must shrink when that gets
// shorter. A distance that swallows a wait replays as well and moves with nothing.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "foretrace/simulate/simulate.hpp"
#include "graph_compare.hpp"
#include "trace/latencies.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;
using graph::GraphBuilder;

constexpr std::string_view kDtoH = "Memcpy DtoH (Device -> Pageable)";
constexpr std::string_view kUnrecorded = "(nodes of a graph that the trace does not hold)";

Ns steady(const graph::Graph& g, double gpu) {
  std::vector<Ns> cost(g.cost.begin(), g.cost.end());
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) cost[t] = static_cast<Ns>(static_cast<double>(cost[t]) * gpu);
  }
  return simulate::steady_state(g, {cost, nullptr}).timeline.step;
}

TEST(GraphWaiting, ABlockingCopyWaitsForWhatItsStreamWaitedFor) {
  // The copy's stream is idle, but waits for a collective of another one.
  TraceMaker m;
  m.step(1, 0, 1'100'000);
  m.launch(1, {10'000, 15'000}, "ncclDevKernel_AllReduce", {17'000, 1'000'000}, 84);
  m.call("cudaStreamWaitEvent", {16'000, 17'000}, 2);
  m.call("cudaMemcpyAsync", {20'000, 1'010'000}, 3).copy(3, kDtoH, {1'005'000, 1'007'000}, 24);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("ncclDevKernel_AllReduce", 383'000).start(kDtoH), 405'000);
  EXPECT_EQ(r.with("ncclDevKernel_AllReduce", 383'000).released("cudaMemcpyAsync"), 410'000);
}

TEST(GraphWaiting, ABlockingCopyOnAnIdleStreamCostsItsCall) {
  // 200 us to fill the staging buffer are the CPU's.
  TraceMaker m;
  m.step(1, 0, 400'000);
  m.call("cudaMemcpyAsync", {20'000, 260'000}, 3).copy(3, "Memcpy HtoD (Pageable -> Device)", {220'000, 250'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.cost("cudaMemcpyAsync", 1), 200'000);
  EXPECT_EQ(r.with("cudaMemcpyAsync", 50'000, 1).start("Memcpy HtoD (Pageable -> Device)"), 70'000);
}

TEST(GraphWaiting, GraphLaunchesBehindOneAnother) {
  TraceMaker m;
  m.step(1, 0, 1'000'000);
  for (int g = 0; g < 3; ++g) {
    const Ns call = 10'000 + 20'000 * g;
    m.call("cudaGraphLaunch", {call, call + 15'000}, g + 1);
    const Ns at = 30'000 + 300'000 * g;
    m.kernel(g + 1, fmt::format("a{}", g), {at, at + 150'000})
        .kernel(g + 1, fmt::format("b{}", g), {at + 150'500, at + 299'000});
  }
  m.call("cudaDeviceSynchronize", {80'000, 940'000}, 9);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("a0", 50'000).start("a2"), 530'000);
  EXPECT_EQ(r.why("a1"), DependencyKind::kLane);
  EXPECT_LT(simulate::limits(r.graph, r.step()).frozen_pct(), 12);
}

TEST(GraphWaiting, AGraphBeginsToRunBeforeItsCallReturns) {
  TraceMaker m;
  m.step(1, 0, 1'000'000);
  m.call("cudaGraphLaunch", {10'000, 810'000}, 1);
  m.kernel(1, "a", {210'000, 400'000}).kernel(1, "b", {400'500, 900'000});
  m.call("cudaDeviceSynchronize", {820'000, 905'000}, 2);
  const Replay r(m);
  expect_as_measured(r);
  // A call twice as fast gives the GPU its first node twice as early.
  EXPECT_NEAR(static_cast<double>(r.with("cudaGraphLaunch", 400'000, 1).start("a")), 110'000, 2'000);
}

TEST(GraphWaiting, GapsInsideAGraphBelongToBothLimits) {
  // A call of 100 us launches 400 nodes, 900 ns apart: with a GPU that costs nothing they still take 360 us.
  TraceMaker m;
  m.step(1, 0, 2'100'000);
  m.call("cudaGraphLaunch", {10'000, 110'000}, 1);
  Ns at = 60'000;
  for (int i = 0; i < 400; ++i, at += 4'900) m.kernel(1, fmt::format("k{}", i), {at, at + 4'000});
  m.call("cudaDeviceSynchronize", {120'000, at + 5'000}, 2);
  const Replay r(m);
  const simulate::Limits l = simulate::limits(r.graph, r.step());
  EXPECT_GT(l.gpu_free, 350'000);
  EXPECT_LT(l.gpu_free_off_pct(), 5);
  EXPECT_LT(l.cpu_free_off_pct(), 5);
}

TEST(GraphWaiting, NodesThatTheTraceDoesNotHoldAreWork) {
  TraceMaker m;
  m.step(1, 0, 2'000'000);
  m.call("cudaGraphLaunch", {10'000, 15'000}, 1);
  m.kernel(1, "a", {20'000, 100'000}).kernel(1, "b", {900'000, 950'000});
  m.call("cudaGraphLaunch", {20'000, 25'000}, 2).kernel(2, "c", {1'500'000, 1'600'000});
  m.call("cudaDeviceSynchronize", {30'000, 1'605'000}, 3);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.graph.notes.unrecorded_tasks, 2U);
  EXPECT_EQ(r.cost(kUnrecorded, 0), 800'000);
  EXPECT_EQ(r.cost(kUnrecorded, 1), 550'000);
  EXPECT_EQ(r.with(kUnrecorded, 100'000).start("c"), 800'000);
  EXPECT_LT(simulate::limits(r.graph, r.step()).frozen_pct(), 2);
}

TEST(GraphWaiting, AGapBehindABusyDeviceIsNoUnrecordedWork) {
  // A plain stream that stands still, and a graph whose first node was launched late.
  TraceMaker m;
  m.step(1, 0, 2'000'000);
  m.launch(1, {10'000, 15'000}, "a", {17'000, 100'000}).launch(2, {20'000, 25'000}, "b", {900'000, 950'000});
  m.call("cudaGraphLaunch", {1'000'000, 1'005'000}, 3).kernel(3, "c", {1'200'000, 1'300'000});
  EXPECT_EQ(Replay(m).graph.notes.unrecorded_tasks, 0U);
}

TEST(GraphWaiting, ACollectiveThatEndedShortlyBeforeWasWaitedFor) {
  // Under MPS and on AMD the other stream wakes up late; nothing names the wait.
  TraceMaker m;
  m.step(1, 0, 1'000'000);
  m.launch(1, {10'000, 15'000}, "cast", {17'000, 30'000});
  m.launch(2, {20'000, 25'000}, "ncclDevKernel_AllReduce", {32'000, 500'000}, 16);
  m.launch(3, {30'000, 35'000}, "uncast", {535'000, 540'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.with("ncclDevKernel_AllReduce", 268'000).start("uncast"), 335'000);
}

TEST(GraphWaiting, TheWaitWasForTheCollectiveBeforeTheLast) {
  // Both are launched before the first is waited for, and no row names the event.
  TraceMaker m;
  m.step(1, 0, 2'000'000);
  m.launch(1, {10'000, 15'000}, "ncclDevKernel_First", {17'000, 500'000}, 4);
  m.launch(2, {20'000, 25'000}, "ncclDevKernel_Second", {502'000, 1'500'000}, 4);
  m.call("hipStreamWaitEvent", {30'000, 31'000}, 3);
  m.launch(4, {32'000, 36'000}, "next", {516'000, 600'000}, 0);
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.graph.notes.refuted_waits, 0U);
  EXPECT_EQ(r.with("ncclDevKernel_First", 183'000).start("next"), 216'000);
}

TEST(GraphWaiting, WorkWithoutALaunchThatTheCpuHeldUp) {
  TraceMaker m;
  m.step(1, 0, 1'000'000);
  m.op("a", 0, 100'000).launch(1, {10'000, 15'000}, "first", {17'000, 30'000});
  m.op("triton", 100'000, 700'000).kernel(77, "orphan", {601'600, 650'000});
  m.op("b", 700'000, 990'000).launch(3, {900'000, 905'000}, "last", {906'600, 950'000});
  const Replay r(m);
  expect_as_measured(r);
  EXPECT_EQ(r.graph.notes.inferred_launches, 1U);
  // 5 of 6 parts of the operation, and the latency.
  EXPECT_NEAR(static_cast<double>(r.with("triton", 60'000).start("orphan")),
              static_cast<double>(150'000 + trace::default_latencies().launch_latency), 10);
}

// Steps of 100 us on the CPU; the GPU is `behind` steps behind: two streams, of which the second waits for the first one's
// last kernel of the step before.
TraceMaker pipeline(int steps) {
  TraceMaker m;
  int id = 1;
  Ns gpu = 0;
  for (int s = 0; s < steps; ++s) {
    const Ns begin = 100'000 * s;
    m.step(s, begin, begin + 100'000);
    const Ns before = gpu;  // end of the last kernel of the step before
    m.call("cudaStreamWaitEvent", {begin + 2'000, begin + 3'000}, id++);
    const Ns side = std::max(begin + 10'000, before + 3'000);
    m.launch(id++, {begin + 5'000, begin + 8'000}, "side", {side, side + 50'000}, 8);
    m.call("cudaStreamWaitEvent", {begin + 11'000, begin + 12'000}, id++);
    const Ns main = std::max(begin + 20'000, side + 53'000);
    m.launch(id++, {begin + 15'000, begin + 18'000}, "first", {main, main + 100'000}, 7);
    m.launch(id++, {begin + 30'000, begin + 33'000}, "second", {main + 101'200, main + 201'200}, 7);
    gpu = main + 201'200;
  }
  return m;
}

TEST(GraphWaiting, ThisStepWaitsForWorkThatTheOneBeforeLaunched) {
  const TraceMaker m = pipeline(8);
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const GraphBuilder builder(trace, steps);
  const graph::Graph g = *builder.build(5);
  EXPECT_TRUE(g.periodic);
  ASSERT_EQ(g.carried.size(), 1U);
  EXPECT_EQ(g.carried[0].back, 1U);
  EXPECT_EQ(g.task_name(g.carried[0].dependency.from), "second");
  EXPECT_EQ(g.task_name(g.carried[0].dependency.to), "side");
  // side, its wake, two kernels, a gap, the other wake
  EXPECT_EQ(g.period, 257'200);
  EXPECT_EQ(simulate::steady_state(g).timeline.step, 257'200);
  EXPECT_EQ(steady(g, 0.5), 132'200);
  EXPECT_EQ(simulate::limits(g, 257'200).frozen, 7'200) << "two wakes and a gap";
  graph::Graph free = g;
  free.carried.clear();
  EXPECT_LT(simulate::steady_state(free).timeline.step, 257'200);
}

TEST(GraphWaiting, CarriedDependenciesSurviveTextAndCopies) {
  const TraceMaker m = pipeline(8);
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const graph::Graph g = *GraphBuilder(trace, steps).build(5);
  const Result<graph::Graph> back = graph::parse(graph::dump(g));
  ASSERT_TRUE(back) << back.error().to_string();
  expect_same_graph(g, *back);
  // Copies of copies are copies.
  EXPECT_EQ(simulate::simulate(graph::repeat(graph::repeat(g, 2), 3)).copy_ends.back(),
            simulate::simulate(graph::repeat(g, 6)).copy_ends.back());
  EXPECT_FALSE(graph::parse("foretrace graph 1\nstep \"s\" last=0\nlane cpu \"t\"\ntask 0 begin\n^ 4 stream-wait\n"));
}

TEST(GraphPace, RampUpStepsAreNamedAndNotChosen) {
  // The CPU needs 50 us a step until its queue is full.
  TraceMaker m;
  Ns gpu = 0;
  for (int s = 0; s < 6; ++s) {
    const Ns begin = s < 2 ? 50'000 * s : 100'000 + 200'000 * (s - 2);
    m.step(s, begin, begin + (s < 2 ? 50'000 : 200'000));
    gpu = std::max(begin + 20'000, gpu + 1'000);
    m.launch(s + 1, {begin + 10'000, begin + 15'000}, "k", {gpu, gpu + 199'000});
    gpu += 199'000;
  }
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const GraphBuilder builder(trace, steps);
  for (std::size_t s = 0; s < 6; ++s) {
    EXPECT_EQ(builder.pace(s).ramp_up, s < 2) << s;
    EXPECT_TRUE(builder.pace(s).behind) << s;
    EXPECT_EQ(builder.pace(s).period, 200'000) << s;
  }
  EXPECT_GE(builder.median(), 2U);
}

TEST(GraphPace, AStepThatWaitsForItsWorkHasThePeriodOfItsRange) {
  TraceMaker m;
  for (int s = 0; s < 2; ++s) {
    const Ns begin = 110'000 * s;
    m.step(s, begin, begin + 100'000)
        .launch(2 * s + 1, {begin + 10'000, begin + 15'000}, "k", {begin + 17'000, begin + 90'000});
    m.call("cudaDeviceSynchronize", {begin + 20'000, begin + 95'000}, 2 * s + 2);
  }
  const trace::Trace trace = m.load();
  const trace::Steps steps = trace::find_steps(trace);
  const GraphBuilder builder(trace, steps);
  EXPECT_FALSE(builder.pace(0).behind);
  EXPECT_EQ(builder.pace(0).period, 100'000);
}

std::vector<std::filesystem::path> real_traces() {
  std::vector<std::filesystem::path> folders = {std::filesystem::path(FORETRACE_SOURCE_DIR) / "examples",
                                                std::filesystem::path(FORETRACE_SOURCE_DIR) / "data"};
  if (const char* truth = std::getenv("FORETRACE_TRUTH")) folders.emplace_back(truth);
  if (const char* open = std::getenv("FORETRACE_PUBLIC")) folders.emplace_back(open);
  std::vector<std::filesystem::path> found;
  for (const auto& folder : folders) {
    if (!std::filesystem::is_directory(folder)) continue;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (name.find(".json.") != std::string::npos && name.find("csv") == std::string::npos)
        found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Over every trace at hand: nothing costs more than it was measured to run, long distances are told, and steps can move.
TEST(GraphWaiting, RealStepsCanMove) {
  std::size_t steps_seen = 0;
  for (const auto& path : real_traces()) {
    const Result<trace::Trace> trace = trace::load(path.string());
    if (!trace) continue;
    const trace::Steps steps = trace::find_steps(*trace);
    const GraphBuilder builder(*trace, steps);
    const bool ours = path.string().find("public") == std::string::npos;
    for (std::size_t i = 0; i < steps.steps.size(); ++i) {
      const Result<graph::Graph> g = builder.build(i);
      if (!g) continue;
      const std::string where = path.filename().string() + " " + g->step_name;
      Ns gpu = 0;
      for (std::size_t t = 0; t < g->size(); ++t) {
        if (graph::is_gpu(g->kind[t])) gpu += g->cost[t];
        if (!g->event[t].valid()) continue;
        ASSERT_LE(g->cost[t], g->kind[t] == graph::TaskKind::kCpu ? g->traced * 2 + kNsPerSecond
                                                                  : trace->events.duration[g->event[t].index()])
            << where << " task " << t;
      }
      if (gpu == 0) continue;
      ++steps_seen;
      const simulate::Limits l = simulate::limits(*g, simulate::steady_state(*g).timeline.step);
      EXPECT_LE(l.frozen_pct(), ours ? 12 : 15) << where;
      // The return of a call that waited has its name; work from before the step keeps its place, which is told.
      const std::vector<simulate::LongLag> lags = simulate::long_lags(*g);
      const auto unnamed = std::count_if(lags.begin(), lags.end(), [](const simulate::LongLag& lag) {
        return lag.kind != DependencyKind::kSync && lag.kind != DependencyKind::kBorder;
      });
      EXPECT_LE(static_cast<std::uint64_t>(unnamed), g->notes.unexplained_lags) << where;
    }
  }
  EXPECT_GT(steps_seen, 10U);
}

}  // namespace
}  // namespace foretrace::test
