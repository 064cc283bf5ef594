// The engine on graphs small enough to compute by hand, written in the text form.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "foretrace/graph/graph.hpp"
#include "simulate/transplant.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;
using graph::Graph;
using ::testing::ElementsAre;

Graph text(std::string_view body, std::string_view step = "last=0") {
  Result<Graph> g = graph::parse(fmt::format("foretrace graph 1\nstep \"s\" {}\n{}", step, body));
  if (!g) {
    ADD_FAILURE() << g.error().to_string();
    return {};
  }
  EXPECT_TRUE(graph::verify(*g));
  return std::move(*g);
}

std::vector<Ns> starts(const Graph& g, const simulate::Options& options = {}) {
  const simulate::Timeline t = simulate::simulate(g, options);
  for (std::size_t i = 0; i < g.size(); ++i) {
    EXPECT_EQ(t.end[i] - t.start[i], options.cost.empty() ? g.cost[i] : options.cost[i]);
  }
  return {t.start.begin(), t.start.end()};
}

TEST(SimulateEngine, LanesRunInOrderWithTheirLags) {
  const Graph g = text(
      "lane cpu \"a\"\n"
      "task 0 begin\n"
      "task 1 cpu cost=10\n"
      "task 2 cpu cost=5 lag=3\n"
      "task 3 cpu cost=5 lag=-4\n"
      "task 4 cpu cost=1 lag=-100\n");
  EXPECT_THAT(starts(g), ElementsAre(0, 0, 13, 14, 14));  // never before the one in front
}

TEST(SimulateEngine, ADependencyHoldsFromAPointOfItsSource) {
  const Graph g = text(
      "lane cpu \"a\"\n"
      "task 0 begin\n"
      "task 1 cpu cost=100 lag=20\n"
      "> 2 thread lag=7\n"
      "> 3 thread lag=7 point=0\n"
      "> 4 thread point=16384\n"
      "> 5 thread lag=-1000\n"
      "lane cpu \"b\"\ntask 2 cpu\nlane cpu \"c\"\ntask 3 cpu\nlane cpu \"d\"\ntask 4 cpu\nlane cpu \"e\"\ntask 5 "
      "cpu\n");
  EXPECT_THAT(starts(g), ElementsAre(0, 20, 127, 27, 45, 20));
}

TEST(SimulateEngine, TheLatestReasonIsTheCause) {
  const Graph g = text(
      "lane cpu \"a\"\ntask 0 begin\ntask 1 cpu cost=50\n> 3 thread lag=1\n"
      "lane cpu \"b\"\ntask 2 cpu cost=10\n> 3 border lag=100\n"
      "lane cpu \"c\"\ntask 3 cpu cost=10\ntask 4 cpu cost=10 lag=2\n");
  const simulate::Timeline t = simulate::simulate(g);
  EXPECT_EQ(t.start[3], 110);
  EXPECT_EQ(t.cause[3], 2U);
  EXPECT_EQ(t.cause_kind[3], DependencyKind::kBorder);
  EXPECT_EQ(t.cause[4], 3U);
  EXPECT_EQ(t.cause_kind[4], DependencyKind::kLane);
  EXPECT_EQ(t.cause[0], kNone);
  EXPECT_EQ(t.cause[2], kNone);
}

// Six launches on a stream whose queue holds two; calls of 10, kernels of 100.
Graph queue_of_two() {
  std::string body = "lane cpu \"cpu\"\ntask 0 begin\n";
  for (int i = 1; i <= 6; ++i) body += fmt::format("task {} call cost=10\n> {} launch lag=5\n", i, i + 6);
  body += "lane gpu \"gpu\" queue=2 queue_lag=3\n";
  for (int i = 7; i <= 12; ++i) body += fmt::format("task {} kernel cost=100 lag=1 launch={}\n", i, i - 6);
  return text(body, "last=6");
}

TEST(SimulateEngine, ALaunchWaitsForRoomInTheQueue) {
  const Graph g = queue_of_two();
  const simulate::Timeline t = simulate::simulate(g);
  EXPECT_THAT(starts(g), ElementsAre(0, 0, 10, 20, 119, 220, 321, 15, 116, 217, 318, 419, 520));
  EXPECT_EQ(t.cause_kind[3], DependencyKind::kLane);  // 18 would do: the kernel before last had started at 15
  EXPECT_EQ(t.cause_kind[4], DependencyKind::kQueue);
  EXPECT_EQ(t.cause[4], 8U);
  EXPECT_EQ(t.step, 331);
}

TEST(SimulateEngine, TheTasksOfOneLaunchEnterTheQueueTogether) {
  // Four kernels of one graph launch, then a plain one, in a queue of two.
  std::string body = "lane cpu \"cpu\"\ntask 0 begin\ntask 1 call cost=10\n";
  for (int i = 3; i <= 6; ++i) body += fmt::format("> {} launch point=0\n", i);
  body += "task 2 call cost=10\n> 7 launch\nlane gpu \"gpu\" queue=2\n";
  for (int i = 3; i <= 6; ++i) body += fmt::format("task {} kernel cost=100 launch=1\n", i);
  body += "task 7 kernel cost=100 launch=2\n";
  const Graph g = text(body, "last=2");
  // The second call needs the kernel two in front of its own to have started, which is the graph's third.
  EXPECT_THAT(starts(g), ElementsAre(0, 0, 200, 0, 100, 200, 300, 400));
}

TEST(SimulateEngine, ASoftDependencyIsDroppedWhenItsSourceComesTooLate) {
  const auto graph = [](Ns late) {
    return text(
        fmt::format("lane cpu \"cpu\"\ntask 0 begin\n> 1 border lag={}\n> 2 border lag=10\n"
                    "lane gpu \"a\"\ntask 1 kernel cost=100\n"
                    "lane gpu \"b\"\ntask 2 kernel cost=20\n< 1 share lag=4 point=32768 slack=50\n",
                    late));
  };
  EXPECT_EQ(starts(graph(0))[2], 54);    // half of it, and 4
  EXPECT_EQ(starts(graph(60))[2], 114);  // 50 behind what else holds it: still waited for
  EXPECT_EQ(starts(graph(61))[2], 10);
  const simulate::Timeline t = simulate::simulate(graph(0));
  EXPECT_EQ(t.cause_kind[2], DependencyKind::kShare);
  EXPECT_EQ(t.cause[2], 1U);
}

TEST(SimulateEngine, OtherCostsNeedNoOtherGraph) {
  const Graph g = queue_of_two();
  std::vector<Ns> cost(g.cost.begin(), g.cost.end());
  for (std::size_t t = 7; t < 13; ++t) cost[t] = 10;
  EXPECT_THAT(starts(g, {cost, nullptr}), ElementsAre(0, 0, 10, 20, 30, 40, 51, 15, 26, 37, 48, 59, 70));
  EXPECT_EQ(g.cost[7], 100);
}

/// Runs the task with the highest id first.
class Backwards : public simulate::Schedule {
 public:
  explicit Backwards(std::uint32_t lane) : lane_(lane) {}
  [[nodiscard]] bool manages(std::uint32_t lane) const override { return lane == lane_; }
  [[nodiscard]] std::size_t pick(std::uint32_t lane, std::span<const std::uint32_t> ready, Ns now) const override {
    EXPECT_EQ(lane, lane_);
    EXPECT_GE(now, 0);
    return static_cast<std::size_t>(std::max_element(ready.begin(), ready.end()) - ready.begin());
  }

 private:
  std::uint32_t lane_;
};

TEST(SimulateEngine, AScheduleChoosesAmongWhatIsReady) {
  const Graph g = text(
      "lane cpu \"cpu\"\ntask 0 begin\ntask 1 cpu cost=10\n> 4 launch\ntask 2 cpu cost=10\n> 5 launch\n"
      "task 3 cpu cost=10\n> 6 launch\n"
      "lane network \"link\"\ntask 4 collective cost=100\n> 7 sync\ntask 5 collective cost=100\ntask 6 collective "
      "cost=100\n"
      "lane cpu \"after\"\ntask 7 cpu cost=1\n",
      "last=3");
  EXPECT_THAT(starts(g), ElementsAre(0, 0, 10, 20, 10, 110, 210, 110));
  const Backwards schedule(1);
  // The first starts alone; when it ends the two others are ready.
  EXPECT_THAT(starts(g, {{}, &schedule}), ElementsAre(0, 0, 10, 20, 10, 210, 110, 110));
  const simulate::Timeline t = simulate::simulate(g, {{}, &schedule});
  EXPECT_EQ(t.cause[6], 4U);
  EXPECT_EQ(t.cause_kind[5], DependencyKind::kLane);
  EXPECT_EQ(t.cause[5], 6U);
}

TEST(SimulateSteadyState, CopiesFollowEachOtherOnTheirLanes) {
  // The CPU needs 30, the stream 100: the distance of two copies is the stream's.
  const Graph g = text(
      "lane cpu \"cpu\"\ntask 0 begin\ntask 1 call cost=30\n> 2 launch lag=5\n"
      "lane gpu \"gpu\" queue=2\ntask 2 kernel cost=99 lag=1 launch=1\n",
      "last=1 periodic");
  const simulate::SteadyState s = simulate::steady_state(g);
  EXPECT_EQ(s.timeline.step, 100);
  EXPECT_TRUE(s.settled);
  EXPECT_EQ(s.copies, 3U);
  EXPECT_EQ(s.repeated.size(), 9U);
  EXPECT_THAT(s.timeline.copy_ends, ElementsAre(134, 234, 334));
  EXPECT_EQ(simulate::simulate(g).step, 30);
  std::vector<Ns> cost = {0, 30, 9};
  EXPECT_EQ(simulate::steady_state(g, {cost, nullptr}).timeline.step, 30);
}

TEST(SimulateSteadyState, WorkNobodyWaitsForBoundsTheStepOnceItIsTheLonger) {
  // Traced with a CPU of 120 and a GPU of 100, nothing in the step waits for the GPU.
  const Graph g = text(
      "lane cpu \"cpu\"\ntask 0 begin\ntask 1 call cost=10\n> 3 launch\ntask 2 cpu cost=110\n"
      "lane gpu \"gpu\" queue=8\ntask 3 kernel cost=100 launch=1\n",
      "last=2");
  EXPECT_EQ(simulate::steady_state(g).timeline.step, 120);
  EXPECT_EQ(simulate::steady_state(g).copies, 1U);
  std::vector<Ns> cost = {0, 10, 110, 300};
  EXPECT_EQ(simulate::steady_state(g, {cost, nullptr}).timeline.step, 300);
  cost = {0, 10, 10, 100};
  EXPECT_EQ(simulate::steady_state(g, {cost, nullptr}).timeline.step, 100);
}

TEST(SimulateSteadyState, AQueueThatFillsSlowlyTakesMoreCopies) {
  // Two launches a step in a queue of ten: the CPU runs ahead for five steps, then follows the stream.
  const Graph g = text(
      "lane cpu \"cpu\"\ntask 0 begin\ntask 1 call cost=10\n> 3 launch\ntask 2 call cost=10\n> 4 launch\n"
      "lane gpu \"gpu\" queue=10\ntask 3 kernel cost=100 launch=1\ntask 4 kernel cost=100 launch=2\n",
      "last=2 periodic");
  const simulate::SteadyState s = simulate::steady_state(g);
  EXPECT_EQ(s.timeline.step, 200);
  EXPECT_TRUE(s.settled);
}

TEST(SimulateRepeat, OneCopyIsTheGraphItself) {
  const Graph g = queue_of_two();
  EXPECT_EQ(graph::dump(graph::repeat(g, 1)), graph::dump(g));
  const Graph three = graph::repeat(g, 3);
  EXPECT_TRUE(graph::verify(three));
  EXPECT_EQ(three.size(), 3 * g.size());
  EXPECT_EQ(three.copies, 3U);
  EXPECT_EQ(three.last.value, 3 * 7 - 1);
  // The queue goes on over the border: the second copy's first call waits for the first copy's fifth kernel.
  const simulate::Timeline t = simulate::simulate(three);
  EXPECT_EQ(t.cause_kind[8], DependencyKind::kQueue);
  EXPECT_EQ(t.start[8], t.start[21 + 4] + 3);
}

TEST(SimulatePath, LeadsFromTheBeginToTheEndWithAReasonEach) {
  const Graph g = text(
      "lane cpu \"cpu\"\ntask 0 begin\ntask 1 call cost=10\n> 4 launch lag=5\ntask 2 call cost=20\ntask 3 wait\n"
      "lane gpu \"gpu\"\ntask 4 kernel cost=100\n> 3 sync lag=7\n",
      "last=3");
  const simulate::Timeline t = simulate::simulate(g);
  const std::vector<simulate::PathStep> path = simulate::critical_path(g, t);
  ASSERT_EQ(path.size(), 3U);
  EXPECT_EQ(path[0].task, 1U);
  EXPECT_EQ(path[0].why, DependencyKind::kNone);
  EXPECT_EQ(path[1].task, 4U);
  EXPECT_EQ(path[1].why, DependencyKind::kLaunch);
  EXPECT_EQ(path[2].task, 3U);
  EXPECT_EQ(path[2].why, DependencyKind::kSync);
  EXPECT_EQ(t.step, 122);
}

TEST(SimulateBreakdown, EveryNanosecondIsAccountedFor) {
  const Graph g = text(
      "lane cpu \"cpu\"\ntask 0 begin\ntask 1 call cost=10\n> 4 launch lag=5\ntask 2 call cost=30\n> 5 launch\ntask 3 "
      "wait\n"
      "lane gpu \"gpu\"\ntask 4 kernel cost=50\n"
      "lane gpu \"comm\"\ntask 5 collective cost=60\n> 3 sync lag=8\n",
      "last=3");
  // cpu 0-10, 10-40; kernel 15-65; collective 40-100; end 108
  const simulate::Breakdown b = simulate::breakdown(g, simulate::simulate(g));
  EXPECT_EQ(b.step, 108);
  EXPECT_EQ(b.cpu_only, 15);
  EXPECT_EQ(b.both, 25);
  EXPECT_EQ(b.gpu_only, 25);
  EXPECT_EQ(b.exposed_communication, 35);
  EXPECT_EQ(b.idle, 8);
  EXPECT_EQ(b.gpu_busy, 50);
  EXPECT_EQ(b.cpu_busy, 40);
  EXPECT_EQ(b.communication, 60);
  EXPECT_EQ(b.gpu_idle_by_cause[static_cast<std::size_t>(DependencyKind::kLaunch)], 15);
  EXPECT_EQ(b.gpu_idle_by_cause[static_cast<std::size_t>(DependencyKind::kNone)], 43);
  EXPECT_EQ(b.path_cpu, 40);
  EXPECT_EQ(b.path_communication, 60);
  EXPECT_EQ(b.path_waits, 8);
  const simulate::LowerBounds bounds = simulate::lower_bounds(g);
  EXPECT_EQ(bounds.no_gpu, 108);
  EXPECT_EQ(bounds.no_network, 50);  // nothing waits for the kernel any more, and it is what the next step finds
  EXPECT_EQ(bounds.no_cpu, 68);
}

TEST(SimulateTransplant, CostsAreMatchedByNameAndOrderOnTheirLane) {
  const Graph a = text(
      "lane cpu \"main\"\ntask 0 begin\ntask 1 cpu \"x\" cost=10\ntask 2 cpu \"y\" cost=20\ntask 3 cpu \"x\" cost=30\n"
      "lane gpu \"s7\"\ntask 4 kernel \"k\" cost=100\ntask 5 kernel \"only here\" cost=7\n",
      "last=3");
  const Graph b = text(
      "lane cpu \"main of another file\"\ntask 0 begin\ntask 1 cpu \"y\" cost=2\ntask 2 cpu \"x\" cost=1\n"
      "task 3 cpu \"x\" cost=3\ntask 4 cpu \"new\" cost=9\n"
      "lane gpu \"s7\"\ntask 5 kernel \"k\" cost=11\nlane gpu \"s8\"\ntask 6 kernel \"k\" cost=12\n",
      "last=4");
  const simulate::Transplant t = simulate::transplant(a, b);
  EXPECT_THAT(t.cost, ElementsAre(0, 1, 2, 3, 11, 7));
  EXPECT_THAT(t.match, ElementsAre(0, 2, 1, 3, 5, kNone));
  EXPECT_EQ(t.unmatched, 3U);  // "only here", "new" and the kernel on the other stream
  EXPECT_THAT(simulate::transplant(a, a).cost, ElementsAre(0, 10, 20, 30, 100, 7));
}

}  // namespace
}  // namespace foretrace::test
