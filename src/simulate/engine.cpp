// The event engine. Without a schedule every lane runs in order, and then the time of each task is a function of its
// predecessors' alone: tasks are processed as their dependencies are met, in any order, with the same result. With a
// schedule, choices depend on what is ready when, and events are processed in the order of time.

#include <algorithm>
#include <queue>
#include <tuple>

#include "foretrace/simulate/simulate.hpp"
#include "simulate/engine_parts.hpp"

namespace foretrace::simulate {

using graph::DependencyKind;
using graph::Graph;
using graph::GraphLane;

namespace {

class Engine {
 public:
  Engine(const Graph& g, const Options& options, Timeline& out)
      : g_(g),
        cost_(options.cost.empty() ? g.cost.data() : options.cost.data()),
        schedule_(options.schedule),
        out_(out) {
    out_.start.clear();
    out_.end.clear();
    out_.cause.clear();
    out_.cause_kind.clear();
    out_.copy_ends.clear();
    const std::size_t n = g.size();
    out_.start.extend(n);
    out_.end.extend(n);
    out_.cause.extend(n);
    out_.cause_kind.extend(n);
  }

  void run() {
    if (schedule_ == nullptr) {
      run_in_order();
    } else {
      run_scheduled();
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

  // Tells the tasks of other lanes that wait for t, which has its times, when they may start; release(task) after each.
  template <class Release>
  void let_go(std::uint32_t t, const GraphLane& lane, Release release) {
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
      release(to);
    }
    if (lane.queue_depth == 0) return;
    if (const TaskId call = graph::queued_behind(g_, t); call.valid()) {
      hold(out_, call.value, begin + lane.queue_lag, t, DependencyKind::kQueue);
      release(call.value);
    }
  }

  // And the next one on the lane.
  void let_next_go(std::uint32_t t) {
    hold(out_, t + 1, std::max(out_.end[t] + g_.lane_lag[t + 1], out_.start[t]), t, DependencyKind::kLane);
  }

  void forget(std::uint32_t t) {
    out_.start[t] = 0;
    out_.cause[t] = kNone;
    out_.cause_kind[t] = DependencyKind::kNone;
  }

  // Every lane in its order: the graph knows an order in which all reasons come first, and one pass along it does. Most
  // tasks wait for nothing but the one in front of them, and most of those let nobody else go; their times never leave
  // the registers but to be written.
  void run_in_order() {
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
        if (dep_begin[t] != dep_begin[t + 1] || queued) let_go(t, lane, [](std::uint32_t) {});
      }
      if (run.end < lane.end) let_next_go(run.end - 1);  // it waits for something else too, or the run would go on
    }
  }

  // The start of a task all of whose reasons have spoken.
  Ns settle(std::uint32_t t) {
    hold_back_softly(t);
    if (out_.start[t] == 0) forget(t);
    return out_.start[t];
  }

  struct Moment {
    Ns time;
    std::uint8_t order;  // at one time: tasks become ready before lanes choose
    std::uint32_t lane, task;
    friend bool operator>(const Moment& a, const Moment& b) {
      return std::tie(a.time, a.order, a.lane, a.task) > std::tie(b.time, b.order, b.lane, b.task);
    }
  };

  void run_scheduled() {
    std::priority_queue<Moment, std::vector<Moment>, std::greater<>> queue;
    std::vector<char> managed(g_.lanes.size(), 0);
    std::vector<Ns> free_at(g_.lanes.size(), 0);
    std::vector<std::vector<std::uint32_t>> waiting(g_.lanes.size());
    std::vector<std::uint32_t> pending(g_.in_degree.begin(), g_.in_degree.end());
    for (std::uint32_t t = 0; t < g_.size(); ++t) forget(t);
    for (std::uint32_t l = 0; l < g_.lanes.size(); ++l) {
      managed[l] = g_.lanes[l].by_priority || schedule_->manages(l) ? 1 : 0;
      if (managed[l] == 0 || g_.lanes[l].by_priority) continue;
      for (std::uint32_t t = g_.lanes[l].begin + 1; t < g_.lanes[l].end; ++t) --pending[t];
    }
    const auto become_ready = [&](std::uint32_t t) {
      hold_back_softly(t);
      queue.push({out_.start[t], 0, g_.lane[t], t});
    };
    const auto begin = [&](std::uint32_t t, Ns when) {
      out_.start[t] = when;
      out_.end[t] = when + cost_[t];
      const GraphLane& lane = g_.lanes[g_.lane[t]];
      const auto release = [&](std::uint32_t to) {
        if (--pending[to] == 0) become_ready(to);
      };
      let_go(t, lane, release);
      if (managed[g_.lane[t]] == 0 && t + 1 < lane.end) {
        let_next_go(t);
        release(t + 1);
      }
    };
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (pending[t] == 0) become_ready(t);
    }
    constexpr std::uint32_t kChoose = kNone;
    while (!queue.empty()) {
      const Moment now = queue.top();
      queue.pop();
      auto& list = waiting[now.lane];
      if (now.task != kChoose) {
        if (managed[now.lane] == 0) {
          begin(now.task, now.time);
        } else {
          list.push_back(now.task);
          queue.push({std::max(now.time, free_at[now.lane]), 1, now.lane, kChoose});
        }
        continue;
      }
      if (list.empty() || free_at[now.lane] > now.time) continue;
      const std::size_t choice = std::min(schedule_->pick(now.lane, list, now.time), list.size() - 1);
      const std::uint32_t t = list[choice];
      list.erase(list.begin() + static_cast<std::ptrdiff_t>(choice));
      if (now.time > out_.start[t]) {
        out_.cause[t] = last_on_lane_.size() > now.lane ? last_on_lane_[now.lane] : kNone;
        out_.cause_kind[t] = DependencyKind::kLane;
      }
      begin(t, now.time);
      if (last_on_lane_.size() <= now.lane) last_on_lane_.resize(now.lane + 1, kNone);
      last_on_lane_[now.lane] = t;
      free_at[now.lane] = out_.end[t];
      if (!list.empty()) queue.push({out_.end[t], 1, now.lane, kChoose});
    }
  }

  const Graph& g_;
  const Ns* cost_;
  const Schedule* schedule_;
  std::vector<std::uint32_t> last_on_lane_;
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
  if (chosen.contention != nullptr) {
    simulate_contended(graph, chosen, timeline);
  } else {
    Engine(graph, chosen, timeline).run();
  }
}

}  // namespace foretrace::simulate
