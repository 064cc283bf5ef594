// What holds for every graph.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <functional>

#include "graph_compare.hpp"
#include "random_graph.hpp"
#include "simulate/steady_runs.hpp"
#include "trace_maker.hpp"

namespace foretrace::test {
namespace {

using graph::DependencyKind;
using graph::Graph;
using simulate::Timeline;

RandomShape draw_shape() {
  RandomShape s;
  s.cpu_lanes = *rc::gen::inRange(1U, 4U);
  s.gpu_lanes = *rc::gen::inRange(0U, 4U);
  s.tasks = *rc::gen::inRange(1U, 120U);
  s.dependencies = *rc::gen::inRange(0U, 150U);
  s.queue_depth = *rc::gen::inRange(0U, 6U);
  s.seed = *rc::gen::arbitrary<std::uint64_t>();
  return s;
}

void check(const char* name, const std::function<void()>& property) { EXPECT_TRUE(rc::check(name, property)); }

Ns makespan(const Timeline& t) { return *std::max_element(t.end.begin(), t.end.end()); }

TEST(SimulateProperty, TheEngineAgreesWithTheDefinition) {
  check("reference", [] {
    const RandomGraph r(draw_shape());
    RC_ASSERT(graph::verify(r.graph).has_value());
    const Timeline t = simulate::simulate(r.graph);
    const std::vector<Ns> expected = reference_starts(r.graph, r.order);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      RC_ASSERT(t.start[i] == expected[i]);
      RC_ASSERT(t.end[i] == expected[i] + r.graph.cost[i]);
    }
    RC_ASSERT(t.step == t.end[r.graph.last.index()]);
  });
}

TEST(SimulateProperty, NothingIsShorterThanALaneOrThePath) {
  check("bounds", [] {
    RandomShape shape = draw_shape();
    shape.negative_lags = false;
    const RandomGraph r(shape);
    const Graph& g = r.graph;
    const Timeline t = simulate::simulate(g);
    for (const graph::GraphLane& lane : g.lanes) {
      Ns work = 0;
      for (std::uint32_t i = lane.begin; i < lane.end; ++i) work += g.cost[i];
      RC_ASSERT(makespan(t) >= work);
    }
    Ns path = 0;
    for (const simulate::PathStep& p : simulate::critical_path(g, t)) {
      // A task that holds the next one from its start or its middle counts as far as that.
      path = std::max(path, t.start[p.task]);
    }
    RC_ASSERT(t.step >= path);
    RC_ASSERT(makespan(t) >= t.step);
  });
}

// The moment at which `from` lets `to` go, by a reason of this kind.
std::vector<Ns> reasons(const Graph& g, const Timeline& t, std::uint32_t from, std::uint32_t to, DependencyKind kind) {
  std::vector<Ns> at;
  const auto point = [&](std::uint32_t p, Ns lag) { return t.start[from] + graph::point_in(g.cost[from], p) + lag; };
  if (kind == DependencyKind::kLane) at.push_back(std::max(t.end[from] + g.lane_lag[to], t.start[from]));
  if (kind == DependencyKind::kQueue) at.push_back(t.start[from] + g.lanes[g.lane[from]].queue_lag);
  if (kind == DependencyKind::kShare) {
    const graph::SoftDependency& s = g.soft_dependencies[g.soft[to]];
    if (s.from.value == from) at.push_back(point(s.point, s.lag));
  }
  for (std::uint32_t d = g.dep_begin[from]; d < g.dep_begin[from + 1]; ++d) {
    if (g.dep_to[d] == to && g.dep_kind[d] == kind)
      at.push_back(std::max(point(g.dep_point[d], g.dep_lag[d]), t.start[from]));
  }
  return at;
}

TEST(SimulateProperty, ThePathIsContiguousFromTheBeginToTheEnd) {
  check("path", [] {
    const RandomGraph r(draw_shape());
    const Graph& g = r.graph;
    const Timeline t = simulate::simulate(g);
    const std::vector<simulate::PathStep> path = simulate::critical_path(g, t);
    RC_ASSERT(!path.empty());
    RC_ASSERT(t.start[path.front().task] == 0);
    RC_ASSERT(path.front().why == DependencyKind::kNone);
    RC_ASSERT(path.back().task == g.last.value);
    for (std::size_t i = 1; i < path.size(); ++i) {
      const std::vector<Ns> at = reasons(g, t, path[i - 1].task, path[i].task, path[i].why);
      RC_ASSERT(std::find(at.begin(), at.end(), t.start[path[i].task]) != at.end());
    }
  });
}

TEST(SimulateProperty, SameCostsSameTimeline) {
  check("scale by one", [] {
    const RandomGraph r(draw_shape());
    const std::vector<Ns> same(r.graph.cost.begin(), r.graph.cost.end());
    const Timeline a = simulate::simulate(r.graph);
    const Timeline b = simulate::simulate(r.graph, {same, nullptr});
    RC_ASSERT(std::equal(a.start.begin(), a.start.end(), b.start.begin()));
    RC_ASSERT(std::equal(a.cause.begin(), a.cause.end(), b.cause.begin()));
  });
}

TEST(SimulateProperty, AFasterTaskNeverLengthensAGraphWithoutSharing) {
  check("monotone", [] {
    RandomShape shape = draw_shape();
    shape.soft = false;
    const RandomGraph r(shape);
    std::vector<Ns> faster(r.graph.cost.begin(), r.graph.cost.end());
    const auto count = *rc::gen::inRange(1U, 5U);
    for (std::uint32_t i = 0; i < count; ++i) {
      faster[*rc::gen::inRange<std::size_t>(0, faster.size())] /= *rc::gen::inRange(2, 10);
    }
    const Timeline before = simulate::simulate(r.graph);
    const Timeline after = simulate::simulate(r.graph, {faster, nullptr});
    for (std::size_t t = 0; t < faster.size(); ++t) {
      RC_ASSERT(after.start[t] <= before.start[t]);
      RC_ASSERT(after.end[t] <= before.end[t]);
    }
  });
}

/// Takes the first in lane order, on the lanes given.
class InOrder : public simulate::Schedule {
 public:
  explicit InOrder(bool everything) : everything_(everything) {}
  [[nodiscard]] bool manages(std::uint32_t) const override { return everything_; }
  [[nodiscard]] std::size_t pick(std::uint32_t, std::span<const std::uint32_t> ready, Ns) const override {
    return static_cast<std::size_t>(std::min_element(ready.begin(), ready.end()) - ready.begin());
  }

 private:
  bool everything_;
};

TEST(SimulateProperty, AScheduleThatKeepsLaneOrderChangesNothing) {
  check("schedule", [] {
    const RandomGraph any(draw_shape());
    const Timeline plain = simulate::simulate(any.graph);
    const InOrder nothing(false);
    const Timeline scheduled = simulate::simulate(any.graph, {{}, &nothing});
    RC_ASSERT(std::equal(plain.start.begin(), plain.start.end(), scheduled.start.begin()));

    // Managed lanes have no order of their own: given as dependencies, it is kept.
    RandomShape shape = draw_shape();
    shape.lane_lags = false;
    RandomGraph ordered(shape);
    for (const graph::GraphLane& lane : ordered.graph.lanes) {
      for (std::uint32_t t = lane.begin; t + 1 < lane.end; ++t) {
        ordered.dependencies.push_back({t, t + 1, 0, graph::kWhole, DependencyKind::kThread});
      }
    }
    graph::finish(ordered.graph, ordered.dependencies);
    const InOrder all(true);
    const Timeline a = simulate::simulate(ordered.graph);
    const Timeline b = simulate::simulate(ordered.graph, {{}, &all});
    RC_ASSERT(std::equal(a.start.begin(), a.start.end(), b.start.begin()));
  });
}

TEST(SimulateProperty, AManagedLaneRunsOneTaskAtATime) {
  check("exclusive", [] {
    RandomShape shape = draw_shape();
    shape.queue_depth = 0;  // a queue follows lane order, which a schedule gives up
    const RandomGraph r(shape);
    const InOrder all(true);
    const Timeline t = simulate::simulate(r.graph, {{}, &all});
    for (const graph::GraphLane& lane : r.graph.lanes) {
      std::vector<std::uint32_t> tasks;
      for (std::uint32_t i = lane.begin; i < lane.end; ++i) tasks.push_back(i);
      std::sort(tasks.begin(), tasks.end(),
                [&](auto a, auto b) { return std::tuple(t.start[a], t.end[a]) < std::tuple(t.start[b], t.end[b]); });
      for (std::size_t i = 1; i < tasks.size(); ++i) RC_ASSERT(t.start[tasks[i]] >= t.end[tasks[i - 1]]);
    }
  });
}

TEST(SimulateProperty, RepeatedGraphsAreSound) {
  check("repeat", [] {
    const RandomGraph r(draw_shape());
    const auto copies = *rc::gen::inRange(1U, 6U);
    const Graph g = graph::repeat(r.graph, copies);
    RC_ASSERT(graph::verify(g).has_value());
    RC_ASSERT(g.size() == copies * r.graph.size());
    RC_ASSERT(std::count(g.dep_kind.begin(), g.dep_kind.end(), DependencyKind::kLaunch) ==
              copies * std::count(r.graph.dep_kind.begin(), r.graph.dep_kind.end(), DependencyKind::kLaunch));
    Graph periodic = r.graph;
    periodic.periodic = true;
    const simulate::SteadyState s = simulate::steady_state(periodic);
    RC_ASSERT(s.copies >= 3U && s.copies <= 8U);
    RC_ASSERT(s.timeline.copy_ends.size() == s.copies);
    RC_ASSERT(std::is_sorted(s.timeline.copy_ends.begin(), s.timeline.copy_ends.end()));
  });
}

TEST(SimulateProperty, ManyRunsOfOneGraphAreAsEachAlone) {
  check("steady runs", [] {
    RandomGraph r(draw_shape());
    r.graph.periodic = *rc::gen::arbitrary<bool>();
    simulate::SteadyRuns runs(r.graph);
    std::vector<Ns> cost(r.graph.cost.begin(), r.graph.cost.end());
    for (int round = 0; round < 4; ++round) {
      const simulate::SteadyState alone = simulate::steady_state(r.graph, {cost, nullptr});
      const simulate::SteadyRuns::Run run = runs.run(cost);
      RC_ASSERT(run.timeline.step == alone.timeline.step);
      RC_ASSERT(run.copies == alone.copies);
      RC_ASSERT(run.settled == alone.settled);
      RC_ASSERT(std::equal(run.timeline.start.begin(), run.timeline.start.end(), alone.timeline.start.begin(),
                           alone.timeline.start.end()));
      for (Ns& c : cost) c = c * *rc::gen::inRange(0, 4) / 2;
    }
  });
}

TEST(SimulateProperty, TextReadsBack) {
  check("dump and parse", [] {
    const RandomGraph r(draw_shape());
    const std::string text = graph::dump(r.graph);
    const Result<Graph> back = graph::parse(text);
    RC_ASSERT(back.has_value());
    expect_same_graph(r.graph, *back);
    RC_ASSERT(graph::dump(*back) == text);
  });
}

TEST(SimulateProperty, APlantedCycleIsFoundAndNeverHangs) {
  check("cycle", [] {
    RandomShape shape = draw_shape();
    shape.tasks += 2;
    RandomGraph r(shape);
    // From any task back to one it already waits for, directly: its lane predecessor or a source of a dependency.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> waits;
    for (std::uint32_t t = 0; t < r.graph.size(); ++t) {
      if (!r.graph.first_of_lane(t)) waits.emplace_back(t, t - 1);
      if (r.graph.soft[t] != kNone) waits.emplace_back(t, r.graph.soft_dependencies[r.graph.soft[t]].from.value);
      if (const TaskId call = graph::queued_behind(r.graph, t); call.valid()) waits.emplace_back(call.value, t);
    }
    for (const graph::Dependency& d : r.dependencies) waits.emplace_back(d.to, d.from);
    RC_PRE(!waits.empty());
    const auto [from, to] = *rc::gen::elementOf(waits);
    r.dependencies.push_back({from, to, 0, graph::kWhole, DependencyKind::kThread});
    graph::finish(r.graph, r.dependencies);
    const Status status = graph::verify(r.graph);
    RC_ASSERT(!status.has_value());
    RC_ASSERT(status.error().message.find("cycle") != std::string::npos);
  });
}

TEST(SimulateProperty, ANegativeCostIsFound) {
  check("negative cost", [] {
    RandomGraph r(draw_shape());
    r.graph.cost[*rc::gen::inRange<std::size_t>(0, r.graph.size())] = -*rc::gen::inRange(1, 1000);
    RC_ASSERT(!graph::verify(r.graph).has_value());
  });
}

TEST(SimulateProperty, TheBreakdownAddsUp) {
  check("breakdown", [] {
    const RandomGraph r(draw_shape());
    const Timeline t = simulate::simulate(r.graph);
    const simulate::Breakdown b = simulate::breakdown(r.graph, t);
    RC_ASSERT(b.step == t.step);
    RC_ASSERT(b.cpu_only + b.gpu_only + b.both + b.exposed_communication + b.idle == b.step);
    Ns idle = 0;
    for (const Ns by_cause : b.gpu_idle_by_cause) idle += by_cause;
    RC_ASSERT(idle == b.step - b.gpu_busy);
    RC_ASSERT(b.path_cpu + b.path_gpu + b.path_communication + b.path_waits == b.step);
  });
}

}  // namespace
}  // namespace foretrace::test
