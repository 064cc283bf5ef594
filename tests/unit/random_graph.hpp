#pragma once
// Random sound graphs, and a second simulation to compare the engine with: slow, simple, without its data structures.

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::test {

struct RandomShape {
  std::uint32_t cpu_lanes = 2;
  std::uint32_t gpu_lanes = 2;
  std::uint32_t tasks = 40;  ///< in all, without the begin
  std::uint32_t dependencies = 40;
  std::uint32_t queue_depth = 3;  ///< of every stream; 0: no limit
  bool soft = true;
  bool negative_lags = true;
  bool lane_lags = true;
  std::uint64_t seed = 1;
};

/// A graph that verify accepts: all reasons to wait follow one random order of the tasks.
class RandomGraph {
 public:
  explicit RandomGraph(const RandomShape& shape) : shape_(shape), random_(shape.seed) {
    place();
    launches();
    others();
    graph::finish(graph, dependencies);
  }

  graph::Graph graph;
  std::vector<graph::Dependency> dependencies;  ///< what `graph` was finished with, for planting more
  std::vector<std::uint32_t> order;             ///< tasks such that every reason leads from earlier to later

 private:
  std::int64_t draw(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Ns lag() { return draw(shape_.negative_lags ? -4'000 : 0, 12'000); }

  // Which lane every place of the order belongs to decides lane lengths; ids then follow lane order.
  void place() {
    using graph::TaskKind;
    const std::uint32_t lanes = std::max(1U, shape_.cpu_lanes) + shape_.gpu_lanes;
    std::vector<std::uint32_t> lane_of = {0};
    for (std::uint32_t i = 0; i < shape_.tasks; ++i) lane_of.push_back(static_cast<std::uint32_t>(draw(0, lanes - 1)));
    std::vector<std::uint32_t> next(lanes, 0);
    for (std::uint32_t l = 0; l < lanes; ++l) {
      graph::GraphLane lane;
      const bool gpu = l >= std::max(1U, shape_.cpu_lanes);
      lane.kind = gpu ? graph::GraphLaneKind::kGpu : graph::GraphLaneKind::kCpu;
      lane.name = graph.strings.intern(std::string(gpu ? "stream " : "thread ") + std::to_string(l));
      lane.begin = next[l] = static_cast<std::uint32_t>(graph.size());
      if (gpu) {
        lane.device = 0;
        lane.stream = l;
        lane.queue_depth = shape_.queue_depth;
        lane.queue_lag = draw(shape_.negative_lags ? -500 : 0, 800);
      }
      for (const std::uint32_t owner : lane_of) {
        if (owner == l) add(l, gpu);
      }
      lane.end = static_cast<std::uint32_t>(graph.size());
      graph.lanes.push_back(lane);
    }
    for (const std::uint32_t owner : lane_of) order.push_back(next[owner]++);
    at_.resize(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) at_[order[i]] = i;
    graph.step_name = "random";
    graph.last = TaskId{graph.lanes[0].end - 1};
    graph.layers.push_back({graph.strings.intern("layer \"0\""), graph.strings.intern("Linear"), false});
  }

  void add(std::uint32_t lane, bool gpu) {
    using graph::TaskKind;
    const bool first = graph.size() == 0;
    graph.kind.push_back(first ? TaskKind::kBegin
                         : gpu ? (draw(0, 9) == 0 ? TaskKind::kCollective : TaskKind::kKernel)
                               : (draw(0, 1) == 0 ? TaskKind::kCall : TaskKind::kCpu));
    graph.cost.push_back(first || draw(0, 9) == 0 ? 0 : draw(1, 100'000));
    graph.lane_lag.push_back(shape_.lane_lags ? draw(shape_.negative_lags ? -2'000 : 0, 3'000) : 0);
    graph.lane.push_back(lane);
    graph.name.push_back(graph.strings.intern("task " + std::to_string(draw(0, 9))));
    graph.phase.push_back(static_cast<graph::Phase>(draw(0, graph::kPhases - 1)));
    graph.layer.push_back(draw(0, 2) == 0 ? graph::LayerId{} : graph::LayerId{0U});
    graph.launch.push_back(TaskId{});
    graph.event.push_back(draw(0, 3) == 0 ? EventId{} : EventId{static_cast<std::uint32_t>(draw(0, 999))});
    graph.op.push_back(EventId{});
    graph.measured.push_back(draw(-10, 1'000'000));
    graph.soft.push_back(kNone);
    graph.origin.push_back(static_cast<graph::Origin>(draw(0, 3)));
  }

  // A launch stands behind the task whose start makes room for it, and in front of the task it starts.
  void launches() {
    for (const graph::GraphLane& lane : graph.lanes) {
      if (lane.kind != graph::GraphLaneKind::kGpu) continue;
      for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
        const std::uint32_t depth = lane.queue_depth;
        const bool bounded = depth > 0 && t >= lane.begin + depth;
        const std::uint32_t low = bounded ? at_[t - depth] + 1 : 1;
        std::vector<std::uint32_t> calls;
        for (std::uint32_t i = low; i < at_[t]; ++i) {
          if (graph.kind[order[i]] == graph::TaskKind::kCall) calls.push_back(order[i]);
        }
        if (calls.empty()) continue;
        const std::uint32_t call =
            calls[static_cast<std::size_t>(draw(0, static_cast<std::int64_t>(calls.size()) - 1))];
        graph.launch[t] = TaskId{call};
        dependencies.push_back({call, t, lag(), draw(0, 4) == 0 ? 0 : graph::kWhole, graph::DependencyKind::kLaunch});
      }
    }
  }

  void others() {
    using graph::DependencyKind;
    constexpr DependencyKind kKinds[] = {DependencyKind::kSync, DependencyKind::kStreamWait, DependencyKind::kThread,
                                         DependencyKind::kBorder, DependencyKind::kGraph};
    if (order.size() < 2) return;
    for (std::uint32_t i = 0; i < shape_.dependencies; ++i) {
      const auto to = static_cast<std::uint32_t>(draw(1, static_cast<std::int64_t>(order.size()) - 1));
      const auto from = static_cast<std::uint32_t>(draw(0, to - 1));
      const auto point = static_cast<std::uint32_t>(draw(0, 2) == 0 ? draw(0, graph::kWhole) : graph::kWhole);
      dependencies.push_back({order[from], order[to], lag(), point, kKinds[draw(0, 4)]});
      if (shape_.soft && draw(0, 4) == 0 && graph.soft[order[to]] == kNone) {
        const auto source = static_cast<std::uint32_t>(draw(0, to - 1));
        graph.soft[order[to]] = static_cast<std::uint32_t>(graph.soft_dependencies.size());
        graph.soft_dependencies.push_back({TaskId{order[source]}, point, lag(), draw(0, 60'000)});
      }
    }
  }

  RandomShape shape_;
  std::mt19937_64 random_;
  std::vector<std::uint32_t> at_;  // place of each task in the order
};

/// When every task starts, from the definition: reasons are looked up per task, in an order known to be sound.
inline std::vector<Ns> reference_starts(const graph::Graph& g, const std::vector<std::uint32_t>& order) {
  std::vector<Ns> start(g.size(), 0);
  for (const std::uint32_t t : order) {
    Ns ready = 0;
    const auto hold = [&](Ns when) { ready = std::max(ready, when); };
    const auto point = [&](std::uint32_t from, std::uint32_t p, Ns lag) {
      // In wider arithmetic than the graph's own.
      return start[from] + static_cast<Ns>(static_cast<long double>(g.cost[from]) * p / graph::kWhole) + lag;
    };
    if (!g.first_of_lane(t)) hold(std::max(start[t - 1] + g.cost[t - 1] + g.lane_lag[t], start[t - 1]));
    for (std::uint32_t from = 0; from < g.size(); ++from) {
      for (std::uint32_t d = g.dep_begin[from]; d < g.dep_begin[from + 1]; ++d) {
        if (g.dep_to[d] != t || g.dep_kind[d] == graph::DependencyKind::kShare) continue;
        hold(std::max(point(from, g.dep_point[d], g.dep_lag[d]), start[from]));
      }
    }
    // Room in the queue: every task this one launches needs the one `depth` in front of it to have started.
    for (const graph::GraphLane& lane : g.lanes) {
      for (std::uint32_t x = lane.begin + lane.queue_depth; lane.queue_depth > 0 && x < lane.end; ++x) {
        if (g.launch[x].value == t && g.launch[x - 1].value != t) hold(start[x - lane.queue_depth] + lane.queue_lag);
      }
    }
    if (g.soft[t] != kNone) {
      const graph::SoftDependency& s = g.soft_dependencies[g.soft[t]];
      if (start[s.from.index()] <= ready + s.slack) hold(point(s.from.value, s.point, s.lag));
    }
    start[t] = ready;
  }
  return start;
}

}  // namespace foretrace::test
