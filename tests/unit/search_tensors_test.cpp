// The search over operations and gradients, against every plan there is.

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "graph/task_row.hpp"
#include "search/tensors.hpp"

namespace foretrace::test {
namespace {

using graph::Graph;
using search::TensorPlan;
using search::TensorProblem;

// A backward pass on one stream, gradients reduced on another lane, an update that waits for all of them.
class SmallStep {
 public:
  explicit SmallStep(std::uint64_t seed) : random_(seed) {
    const std::size_t operations = 2 + draw(5);
    const std::size_t tensors = 2 + draw(7);
    add_lane(graph::GraphLaneKind::kCpu, 2);
    add_lane(graph::GraphLaneKind::kGpu, operations);
    add_lane(graph::GraphLaneKind::kNetwork, tensors);
    Graph& g = graph_;
    g.kind[0] = graph::TaskKind::kBegin;
    g.kind[1] = graph::TaskKind::kWait;
    g.last = TaskId{1U};
    std::vector<std::size_t> makers;
    for (std::size_t i = 0; i < tensors; ++i) makers.push_back(draw(operations));
    std::sort(makers.begin(), makers.end());
    for (std::size_t i = 0; i < operations; ++i) {
      const auto t = static_cast<std::uint32_t>(2 + i);
      g.kind[t] = graph::TaskKind::kKernel;
      g.cost[t] = static_cast<Ns>(5'000 + draw(200'000));
      problem.operations.push_back({t});
      saved_.push_back(draw(3) == 0 ? 0.0 : 0.4 * static_cast<double>(draw(100)) / 100);
    }
    std::vector<graph::Dependency> all;
    const double alpha = 2'000 + static_cast<double>(draw(120'000));
    const double per_byte = static_cast<double>(1 + draw(40)) / 100;
    for (std::size_t i = 0; i < tensors; ++i) {
      const auto t = static_cast<std::uint32_t>(2 + operations + i);
      g.kind[t] = graph::TaskKind::kCollective;
      TensorProblem::Tensor tensor;
      tensor.collective = t;
      tensor.bytes = static_cast<std::int64_t>(1'000 + draw(1'000'000));
      tensor.operation = static_cast<std::uint32_t>(makers[i]);
      tensor.unit = static_cast<std::uint32_t>(i);
      problem.tensors.push_back(tensor);
      all.push_back({problem.operations[makers[i]].task, t, 0, graph::kWhole, graph::DependencyKind::kStreamWait});
      all.push_back({t, 1, 0, graph::kWhole, graph::DependencyKind::kSync});
    }
    all.push_back({static_cast<std::uint32_t>(1 + operations), 1, 0, graph::kWhole, graph::DependencyKind::kSync});
    graph::finish(g, all);
    problem.graph = &graph_;
    problem.fused = [this](std::uint32_t first, std::uint32_t last) -> std::optional<Ns> {
      double cost = static_cast<double>(graph_.cost[problem.operations[first].task]);
      for (std::uint32_t i = first + 1; i <= last; ++i) {
        if (saved_[i] == 0) return std::nullopt;
        cost += (1 - saved_[i]) * static_cast<double>(graph_.cost[problem.operations[i].task]);
      }
      return static_cast<Ns>(cost);
    };
    // Parts overlap their way out and back, as with a parameter server, and each pays a latency.
    problem.sync = [=](std::int64_t bytes, int parts) {
      const double through = per_byte * static_cast<double>(bytes);
      return static_cast<Ns>(alpha * parts + through * (1 + 1.0 / parts));
    };
    problem.parts = {1, 2};
  }

  TensorProblem problem;

  // The best of all plans.
  Ns brute_force() {
    Ns best = INT64_MAX;
    search::TensorEvaluator evaluator(problem, false);
    TensorPlan plan = search::separate(problem);
    const std::size_t operations = problem.operations.size();
    const std::size_t tensors = problem.tensors.size();
    for (std::uint32_t fuse = 0; fuse < 1U << (operations - 1); ++fuse) {
      bool possible = true;
      for (std::size_t i = 1; i < operations; ++i) {
        plan.fused_with_previous[i] = fuse >> (i - 1) & 1U;
        possible = possible && (plan.fused_with_previous[i] == 0 || saved_[i] > 0);
      }
      if (!possible) continue;
      for (std::uint32_t join = 0; join < 1U << (tensors - 1); ++join) {
        std::vector<std::size_t> lasts;
        for (std::size_t i = 1; i < tensors; ++i) {
          plan.joined_with_previous[i] = join >> (i - 1) & 1U;
          if (plan.joined_with_previous[i] == 0) lasts.push_back(i - 1);
        }
        lasts.push_back(tensors - 1);
        for (std::uint32_t parts = 0; parts < 1U << lasts.size(); ++parts) {
          for (std::size_t b = 0; b < lasts.size(); ++b) plan.parts[lasts[b]] = 1 + (parts >> b & 1U);
          best = std::min(best, evaluator.evaluate(plan));
        }
      }
    }
    return best;
  }

 private:
  std::size_t draw(std::size_t below) { return random_() % below; }

  void add_lane(graph::GraphLaneKind kind, std::size_t tasks) {
    Graph& g = graph_;
    graph::GraphLane lane;
    lane.kind = kind;
    lane.begin = static_cast<std::uint32_t>(g.size());
    for (std::size_t i = 0; i < tasks; ++i) {
      append_task(g, {.lane = static_cast<std::uint32_t>(g.lanes.size()),
                      .name = g.strings.intern("task"),
                      .phase = graph::Phase::kBackward});
    }
    lane.end = static_cast<std::uint32_t>(g.size());
    g.lanes.push_back(lane);
  }

  std::mt19937_64 random_;
  Graph graph_;
  std::vector<double> saved_;  // part of an operation's time that fusing it with the one before saves; 0: impossible
};

TEST(TensorSearch, FindsTheBestOfAllPlansOnSmallSteps) {
  int reached = 0;
  int annealed = 0;
  constexpr int kCases = 200;
  for (int seed = 1; seed <= kCases; ++seed) {
    SmallStep step(static_cast<std::uint64_t>(seed));
    ASSERT_TRUE(graph::verify(*step.problem.graph).has_value());
    const Ns best = step.brute_force();
    search::TensorOptions options;
    options.evaluations = 2'000;
    const search::TensorResult found = search_tensors(step.problem, separate(step.problem), options);
    EXPECT_GE(found.step, best) << seed;
    EXPECT_LE(static_cast<double>(found.step), 1.02 * static_cast<double>(best)) << seed;
    reached += found.step == best ? 1 : 0;
    options.evaluations = 3'000;
    const search::TensorResult other = anneal_tensors(step.problem, separate(step.problem), options);
    EXPECT_GE(other.step, best) << seed;
    annealed += static_cast<double>(other.step) <= 1.02 * static_cast<double>(best) ? 1 : 0;
  }
  EXPECT_GE(reached, kCases * 95 / 100);
  EXPECT_GE(annealed, kCases * 95 / 100);
  RecordProperty("reached", reached);
  RecordProperty("annealed", annealed);
}

TEST(TensorSearch, SameSeedSameAnswer) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SmallStep step(seed);
    search::TensorOptions options;
    options.evaluations = 300;
    options.seed = seed;
    const auto a = search_tensors(step.problem, separate(step.problem), options);
    const auto b = search_tensors(step.problem, separate(step.problem), options);
    EXPECT_EQ(a.plan, b.plan);
    EXPECT_LE(a.evaluations, 300U);
    options.incremental = false;
    const auto in_full = search_tensors(step.problem, separate(step.problem), options);
    EXPECT_EQ(in_full.plan, a.plan) << "incremental simulation changes the speed, not the answer";
    EXPECT_EQ(in_full.step, a.step);
  }
}

}  // namespace
}  // namespace foretrace::test
