// The engine for lanes that run in order: the time of each task is then a function of its predecessors' alone, and one pass
// along an order of the graph gives all of them. Schedules and contention need event_engine.cpp.

#include <algorithm>

#include "foretrace/simulate/simulate.hpp"
#include "simulate/engine_parts.hpp"

namespace foretrace::simulate {

using graph::DependencyKind;
using graph::Graph;
using graph::GraphLane;

namespace {

class OrderedEngine {
 public:
  OrderedEngine(const Graph& g, const Options& options, Timeline& out)
      : g_(g), cost_(options.cost.empty() ? g.cost.data() : options.cost.data()), out_(out) {
    make_room(out, g.size());
  }

  // Every lane in its order: the graph knows an order in which all reasons come first, and one pass along it does. Most
  // tasks wait for nothing but the one in front of them, and most of those let nobody else go; their times never leave
  // the registers but to be written.
  void run() {
    // A task whose start is still 0 when its turn comes was held by nothing: only then are the old causes wrong.
    std::fill(out_.start.begin(), out_.start.end(), Ns{0});
    const std::uint32_t* const reasons = g_.in_degree.data();
    const std::uint32_t* const dep_begin = g_.dep_begin.data();
    const Ns* const lane_lag = g_.lane_lag.data();
    const Ns* const cost = cost_;
    Ns* const start = out_.start.data();
    Ns* const end = out_.end.data();
    std::uint32_t* const cause = out_.cause.data();
    DependencyKind* const cause_kind = out_.cause_kind.data();
    for (const graph::TaskRun run : g_.order) {
      const GraphLane lane = g_.lanes[g_.lane[run.begin]];
      const bool queued = lane.queue_depth != 0;
      Ns begins = 0;
      Ns ends = 0;
      for (std::uint32_t t = run.begin; t < run.end; ++t) {
        if (t > run.begin) {
          const Ns in_line = std::max(ends + lane_lag[t], begins);
          if (reasons[t] == 1 && in_line > 0) {
            begins = in_line;
            start[t] = begins;
            cause[t] = t - 1;
            cause_kind[t] = DependencyKind::kLane;
          } else {
            hold(out_, t, in_line, t - 1, DependencyKind::kLane);
            begins = settle(t);
          }
        } else {
          begins = settle(t);
        }
        ends = begins + cost[t];
        end[t] = ends;
        if (dep_begin[t] != dep_begin[t + 1] || queued) let_go(t, lane);
      }
      if (run.end < lane.end) let_next_go(run.end - 1);  // it waits for something else too, or the run would go on
    }
    find_step(g_, out_);
  }

 private:
  // The last of a task's reasons: whether it holds depends on the others.
  void hold_back_softly(std::uint32_t t) {
    if (g_.soft[t] == kNone) return;
    const graph::SoftDependency& soft = g_.soft_dependencies[g_.soft[t]];
    const std::uint32_t from = soft.from.value;
    if (out_.start[from] > out_.start[t] + soft.slack) return;
    hold(out_, t, out_.start[from] + graph::point_in(cost_[from], soft.point) + soft.lag, from, DependencyKind::kShare);
  }

  // Tells the tasks of other lanes that wait for t, which has its times, when they may start.
  void let_go(std::uint32_t t, const GraphLane& lane) {
    const Ns begin = out_.start[t];
    const Ns end = out_.end[t];
    const std::uint32_t last = g_.dep_begin[t + 1];
    for (std::uint32_t d = g_.dep_begin[t]; d < last; ++d) {
      const std::uint32_t to = g_.dep_to[d];
      if (g_.dep_kind[d] != DependencyKind::kShare) {
        const std::uint32_t point = g_.dep_point[d];
        const Ns at = (point == graph::kWhole ? end : begin + graph::point_in(end - begin, point)) + g_.dep_lag[d];
        hold(out_, to, std::max(at, begin), t, g_.dep_kind[d]);
      }
    }
    if (lane.queue_depth == 0) return;
    if (const TaskId call = graph::queued_behind(g_, t); call.valid()) {
      hold(out_, call.value, begin + lane.queue_lag, t, DependencyKind::kQueue);
    }
  }

  // And the next one on the lane.
  void let_next_go(std::uint32_t t) {
    hold(out_, t + 1, std::max(out_.end[t] + g_.lane_lag[t + 1], out_.start[t]), t, DependencyKind::kLane);
  }

  // The start of a task all of whose reasons have spoken.
  Ns settle(std::uint32_t t) {
    hold_back_softly(t);
    if (out_.start[t] == 0) {
      out_.cause[t] = kNone;
      out_.cause_kind[t] = DependencyKind::kNone;
    }
    return out_.start[t];
  }

  const Graph& g_;
  const Ns* cost_;
  Timeline& out_;
};

/// The order a graph itself asks for.
class ByPriority final : public Schedule {
 public:
  explicit ByPriority(const Graph& g) : g_(g) {}
  [[nodiscard]] bool manages(std::uint32_t lane) const override { return g_.lanes[lane].by_priority; }
  [[nodiscard]] std::size_t pick(std::uint32_t /*lane*/, std::span<const std::uint32_t> ready,
                                 Ns /*now*/) const override {
    const auto best = std::max_element(ready.begin(), ready.end(), [&](std::uint32_t a, std::uint32_t b) {
      return g_.priority_of(a) < g_.priority_of(b);
    });
    return static_cast<std::size_t>(best - ready.begin());
  }

 private:
  const Graph& g_;
};

bool goes_by_priority(const Graph& g) {
  return std::any_of(g.lanes.begin(), g.lanes.end(), [](const GraphLane& lane) { return lane.by_priority; });
}

}  // namespace

void make_room(Timeline& out, std::size_t tasks) {
  const auto renew = [&](auto& column) {
    column.clear();
    column.extend(tasks);
  };
  renew(out.start);
  renew(out.end);
  renew(out.cause);
  renew(out.cause_kind);
  out.copy_ends.clear();
}

void find_step(const Graph& g, Timeline& out) {
  if (g.copies == 1) {
    out.step = out.end[g.last.index()];
    return;
  }
  // A copy ends when its main thread and its work on the GPU have ended; the step is the distance of the last two ends.
  out.copy_ends.assign(g.copies, 0);
  // Threads of their own pace have no part in it.
  for (std::uint32_t l = 0; l < g.lanes.size(); ++l) {
    const GraphLane& lane = g.lanes[l];
    if (lane.kind == graph::GraphLaneKind::kCpu && l != g.main_lane) continue;
    const std::uint32_t length = (lane.end - lane.begin) / g.copies;
    for (std::uint32_t c = 0; c < g.copies && length > 0; ++c) {
      Ns& end = out.copy_ends[c];
      for (std::uint32_t t = lane.begin + c * length; t < lane.begin + (c + 1) * length; ++t) {
        end = std::max(end, out.end[t]);
      }
    }
  }
  out.step = out.copy_ends[g.copies - 1] - out.copy_ends[g.copies - 2];
}

Timeline simulate(const Graph& graph, const Options& options) {
  Timeline timeline;
  simulate(graph, options, timeline);
  return timeline;
}

void simulate(const Graph& graph, const Options& options, Timeline& timeline) {
  const ByPriority own(graph);
  Options chosen = options;
  if (chosen.schedule == nullptr && goes_by_priority(graph)) chosen.schedule = &own;
  if (chosen.contention != nullptr || chosen.schedule != nullptr) {
    simulate_events(graph, chosen, timeline);
  } else {
    OrderedEngine(graph, chosen, timeline).run();
  }
}

}  // namespace foretrace::simulate
