// Incremental simulation against the engine: the same times to the nanosecond, whatever the move.

#include <gtest/gtest.h>

#include <filesystem>
#include <random>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"
#include "random_graph.hpp"
#include "simulate/incremental.hpp"

namespace foretrace::test {
namespace {

using graph::Graph;
using simulate::Change;
using simulate::Incremental;

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::uint32_t below(std::size_t n) {
    return static_cast<std::uint32_t>(std::uniform_int_distribution<std::size_t>(0, n - 1)(random_));
  }

 private:
  std::mt19937_64 random_;
};

std::vector<Change> draw_move(const Graph& g, Dice& dice) {
  std::vector<Change> move;
  const std::size_t count = 1 + dice.below(4);
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t task = dice.below(g.size());
    const Ns cost = g.cost[task];
    switch (dice.below(8)) {
      case 0:
        move.push_back({Change::kLaneLag, task, static_cast<Ns>(dice.below(9000)) - 2000});
        break;
      case 1: {
        if (g.dep_to.empty()) break;
        const std::uint32_t d = dice.below(g.dep_to.size());
        if (g.dep_kind[d] == graph::DependencyKind::kShare) break;
        move.push_back({Change::kDependencyLag, d, static_cast<Ns>(dice.below(30'000)) - 5000});
        break;
      }
      case 2:
        move.push_back({Change::kCost, task, 0});
        break;
      case 3:
        move.push_back({Change::kCost, task, cost + dice.below(1'000'000)});
        break;
      default:
        move.push_back({Change::kCost, task, cost * (1 + dice.below(40)) / 20});
    }
  }
  return move;
}

void apply(Graph& g, const std::vector<Change>& move) {
  for (const Change& c : move) {
    (c.what == Change::kCost ? g.cost : c.what == Change::kLaneLag ? g.lane_lag : g.dep_lag)[c.index] = c.value;
  }
}

// Moves against one base; every fifth is kept. Returns how many tasks were simulated one by one, in parts of all.
double check_moves(const Graph& base, std::size_t moves, std::uint64_t seed) {
  Dice dice(seed);
  Graph current = base;
  Incremental incremental = *Incremental::make(base);
  EXPECT_EQ(incremental.step(), simulate::simulate(base).step);
  simulate::Timeline expected;
  double simulated = 0;
  for (std::size_t i = 0; i < moves; ++i) {
    const std::vector<Change> move = draw_move(base, dice);
    Graph changed = current;
    apply(changed, move);
    simulate::simulate(changed, {}, expected);
    const Ns step = incremental.what_if(move);
    EXPECT_EQ(step, expected.step) << "move " << i << ", seed " << seed;
    std::size_t wrong = 0;
    for (std::uint32_t t = 0; t < base.size(); ++t) {
      wrong += incremental.start(t) != expected.start[t] || incremental.end(t) != expected.end[t] ? 1 : 0;
    }
    EXPECT_EQ(wrong, 0U) << "tasks of move " << i << ", seed " << seed;
    if (step != expected.step || wrong > 0) return 1;
    simulated += static_cast<double>(incremental.effort().simulated) / static_cast<double>(base.size());
    if (i % 5 == 4) {
      incremental.accept();
      EXPECT_EQ(incremental.step(), expected.step);
      current = std::move(changed);
    }
  }
  return simulated / static_cast<double>(moves);
}

TEST(Incremental, EqualsTheEngineOnRandomGraphs) {
  for (std::uint64_t seed = 1; seed <= 200 && !HasFailure(); ++seed) {
    Dice dice(seed);
    RandomShape shape;
    shape.cpu_lanes = 1 + dice.below(3);
    shape.gpu_lanes = dice.below(4);
    shape.tasks = 1 + dice.below(1500);
    shape.dependencies = dice.below(shape.tasks + 1);
    shape.queue_depth = dice.below(6);
    shape.soft = dice.below(2) == 0;
    shape.negative_lags = dice.below(2) == 0;
    shape.seed = seed;
    const RandomGraph r(shape);
    ASSERT_TRUE(graph::verify(r.graph).has_value());
    check_moves(r.graph, 40, seed);
  }
}

TEST(Incremental, EqualsTheEngineOnRepeatedGraphs) {
  for (std::uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    RandomShape shape;
    shape.tasks = 40 + static_cast<std::uint32_t>(seed * 17);
    shape.dependencies = shape.tasks;
    shape.seed = seed;
    check_moves(graph::repeat(RandomGraph(shape).graph, 2 + static_cast<std::uint32_t>(seed % 4)), 25, seed);
  }
}

TEST(Incremental, EqualsTheEngineOnRealSteps) {
  std::size_t steps = 0;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(FORETRACE_SOURCE_DIR "/data/h200-more")) {
    if (entry.path().filename().string().ends_with(".base.json.gz")) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const auto& file : files) {
    const Result<trace::Trace> trace = trace::load(file.string());
    ASSERT_TRUE(trace.has_value());
    const trace::Steps found = trace::find_steps(*trace);
    const graph::GraphBuilder builder(*trace, found);
    const Result<Graph> g = builder.build(found.median());
    ASSERT_TRUE(g.has_value());
    // Most moves leave most of the step alone, or move it as a whole.
    EXPECT_LT(check_moves(*g, 350, ++steps), 0.5) << file;
    check_moves(graph::repeat(*g, 3), 30, ++steps);
  }
  EXPECT_GE(steps, 4U);
}

TEST(Incremental, NoChangeIsNoWork) {
  const RandomGraph r({.tasks = 900, .dependencies = 300});
  Incremental incremental = *Incremental::make(r.graph);
  EXPECT_EQ(incremental.what_if({}), incremental.step());
  EXPECT_EQ(incremental.effort().simulated, 0U);
  EXPECT_EQ(incremental.what_if({{Change::kCost, 5, r.graph.cost[5]}}), incremental.step());
  EXPECT_EQ(incremental.effort().untouched, r.graph.size());
}

TEST(Incremental, RefusesLanesByPriority) {
  RandomGraph r({.tasks = 60, .dependencies = 20});
  ASSERT_TRUE(Incremental::make(r.graph).has_value());
  r.graph.lanes.back().by_priority = true;
  graph::finish(r.graph, r.dependencies);
  ASSERT_TRUE(graph::verify(r.graph).has_value());
  const Result<Incremental> refused = Incremental::make(r.graph);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kDeclined);
  EXPECT_NE(refused.error().message.find("by priority"), std::string::npos);
}

}  // namespace
}  // namespace foretrace::test
