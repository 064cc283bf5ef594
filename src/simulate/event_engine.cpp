// The engine for what depends on the state at a time: which task a lane chooses, and how fast concurrent tasks run. Speeds
// change when a collective or the first computation begins or ends, so events are processed in the order of time and the
// ends of running tasks move.

#include <algorithm>
#include <cmath>
#include <queue>
#include <tuple>

#include "simulate/engine_parts.hpp"

namespace foretrace::simulate {

using graph::DependencyKind;
using graph::Graph;
using graph::GraphLane;

namespace {

const Contention kNoContention;

class EventEngine {
 public:
  EventEngine(const Graph& g, const Options& options, Timeline& out)
      : g_(g),
        cost_(options.cost.empty() ? g.cost.data() : options.cost.data()),
        schedule_(options.schedule),
        c_(options.contention == nullptr ? kNoContention : *options.contention),
        out_(out) {
    const std::size_t n = g.size();
    make_room(out, n);
    std::fill(out_.start.begin(), out_.start.end(), Ns{0});
    std::fill(out_.cause.begin(), out_.cause.end(), kNone);
    std::fill(out_.cause_kind.begin(), out_.cause_kind.end(), DependencyKind::kNone);
    pending_.assign(g.in_degree.begin(), g.in_degree.end());
    version_.assign(n, 0);
    flows_.assign(c_.links, 0);
    managed_.assign(g.lanes.size(), 0);
    busy_.assign(g.lanes.size(), 0);
    free_at_.assign(g.lanes.size(), 0);
    waiting_.resize(g.lanes.size());
    last_on_lane_.assign(g.lanes.size(), kNone);
    for (std::uint32_t l = 0; schedule_ != nullptr && l < g.lanes.size(); ++l) {
      managed_[l] = g.lanes[l].by_priority || schedule_->manages(l) ? 1 : 0;
      if (managed_[l] == 0 || g.lanes[l].by_priority) continue;  // lanes by priority have no order to drop
      for (std::uint32_t t = g.lanes[l].begin + 1; t < g.lanes[l].end; ++t) --pending_[t];
    }
  }

  void run() {
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (pending_[t] == 0) become_ready(t);
    }
    while (!queue_.empty()) {
      const Moment now = queue_.top();
      queue_.pop();
      switch (now.what) {
        case What::kFinish:
          if (version_[now.task] == now.version) finish(now.task, now.time);
          break;
        case What::kReady:
          if (managed_[now.lane] == 0) {
            begin(now.task, now.time);
          } else {
            waiting_[now.lane].push_back(now.task);
            // A task may have been ready before its lane was free.
            queue_.push({std::max(now.time, free_at_[now.lane]), What::kChoose, now.lane, 0, 0});
          }
          break;
        case What::kChoose:
          choose(now.lane, now.time);
          break;
      }
    }
    find_step(g_, out_);
  }

 private:
  // At one time: ends come first, then tasks become ready, then lanes choose.
  enum class What : std::uint8_t { kFinish, kReady, kChoose };
  struct Moment {
    Ns time;
    What what;
    std::uint32_t lane, task, version;
    friend bool operator>(const Moment& a, const Moment& b) {
      return std::tie(a.time, a.what, a.lane, a.task, a.version) > std::tie(b.time, b.what, b.lane, b.task, b.version);
    }
  };
  struct Running {
    std::uint32_t task;
    double left;  // work in ns at full speed
    double speed;
    Ns since;
  };

  [[nodiscard]] bool communicates(std::uint32_t t) const { return g_.kind[t] == graph::TaskKind::kCollective; }
  [[nodiscard]] std::uint32_t link_of(std::uint32_t t) const { return c_.link.empty() ? kNone : c_.link[t]; }

  void become_ready(std::uint32_t t) {
    if (g_.soft[t] != kNone) {
      const graph::SoftDependency& soft = g_.soft_dependencies[g_.soft[t]];
      const std::uint32_t from = soft.from.value;
      if (out_.start[from] <= out_.start[t] + soft.slack) {
        const Ns length = std::max<Ns>(0, out_.end[from] - out_.start[from]);
        hold(out_, t, out_.start[from] + graph::point_in(length, soft.point) + soft.lag, from, DependencyKind::kShare);
      }
    }
    queue_.push({out_.start[t], What::kReady, g_.lane[t], t, 0});
  }

  void release(std::uint32_t t) {
    if (--pending_[t] == 0) become_ready(t);
  }

  // Dependencies that may let go before the task's end do so when it begins, on the end as it looks then.
  [[nodiscard]] static bool early(std::uint32_t point, Ns lag) { return point != graph::kWhole || lag < 0; }

  void let_go(std::uint32_t t, bool at_begin) {
    const Ns from = out_.start[t];
    const Ns to = out_.end[t];
    const GraphLane& lane = g_.lanes[g_.lane[t]];
    for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
      const bool share = g_.dep_kind[d] == DependencyKind::kShare;  // orders only; its time is in the soft dependency
      if ((share || early(g_.dep_point[d], g_.dep_lag[d])) != at_begin) continue;
      if (!share) {
        const Ns at = from + graph::point_in(to - from, g_.dep_point[d]) + g_.dep_lag[d];
        hold(out_, g_.dep_to[d], std::max(at, from), t, g_.dep_kind[d]);
      }
      release(g_.dep_to[d]);
    }
    if (at_begin) {
      if (const TaskId call = graph::queued_behind(g_, t); call.valid()) {
        hold(out_, call.value, from + lane.queue_lag, t, DependencyKind::kQueue);
        release(call.value);
      }
    }
    if (managed_[g_.lane[t]] == 0 && t + 1 < lane.end && early(graph::kWhole, g_.lane_lag[t + 1]) == at_begin) {
      hold(out_, t + 1, std::max(to + g_.lane_lag[t + 1], from), t, DependencyKind::kLane);
      release(t + 1);
    }
  }

  [[nodiscard]] double speed_of(std::uint32_t t) const {
    double speed = 1;
    if (communicates(t)) {
      if (computing_ > 0 && !c_.speed_in_computation.empty()) speed *= c_.speed_in_computation[t];
    } else if (communicating_ > 0 && !c_.speed_in_communication.empty()) {
      speed *= c_.speed_in_communication[t];
    }
    if (link_of(t) != kNone) speed /= std::max(1u, flows_[link_of(t)]);
    return std::max(speed, 1e-6);
  }

  void set_end(Running& r) {
    out_.end[r.task] = r.since + static_cast<Ns>(std::llround(r.left / r.speed));
    queue_.push({out_.end[r.task], What::kFinish, g_.lane[r.task], r.task, ++version_[r.task]});
  }

  void respeed(Ns now) {
    for (Running& r : running_) {
      const double speed = speed_of(r.task);
      if (speed == r.speed) continue;
      r.left = std::max(0.0, r.left - static_cast<double>(now - r.since) * r.speed);
      r.speed = speed;
      r.since = now;
      set_end(r);
    }
  }

  // Counts a task in or out; true when others' speeds change.
  bool count(std::uint32_t t, int by) {
    bool changes = false;
    if (link_of(t) != kNone) {
      flows_[link_of(t)] += static_cast<std::uint32_t>(by);
      changes = true;
    }
    int& class_count = communicates(t) ? communicating_ : computing_;
    changes |= class_count == (by > 0 ? 0 : 1);
    class_count += by;
    return changes;
  }

  void begin(std::uint32_t t, Ns now) {
    out_.start[t] = now;
    out_.end[t] = now + cost_[t];
    if (!graph::is_gpu(g_.kind[t])) {
      queue_.push({out_.end[t], What::kFinish, g_.lane[t], t, ++version_[t]});
    } else {
      const bool changes = count(t, 1);
      running_.push_back({t, static_cast<double>(cost_[t]), speed_of(t), now});
      set_end(running_.back());
      if (changes) respeed(now);
    }
    let_go(t, true);
  }

  void finish(std::uint32_t t, Ns now) {
    ++version_[t];
    out_.end[t] = now;
    if (graph::is_gpu(g_.kind[t])) {
      running_.erase(std::find_if(running_.begin(), running_.end(), [&](const Running& r) { return r.task == t; }));
      if (count(t, -1)) respeed(now);
    }
    let_go(t, false);
    const std::uint32_t lane = g_.lane[t];
    if (managed_[lane] != 0) {
      busy_[lane] = 0;
      free_at_[lane] = now;
      if (!waiting_[lane].empty()) queue_.push({now, What::kChoose, lane, 0, 0});
    }
  }

  void choose(std::uint32_t lane, Ns now) {
    auto& list = waiting_[lane];
    if (list.empty() || busy_[lane] != 0) return;
    const std::size_t choice = std::min(schedule_->pick(lane, list, now), list.size() - 1);
    const std::uint32_t t = list[choice];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(choice));
    if (now > out_.start[t]) {
      out_.cause[t] = last_on_lane_[lane];
      out_.cause_kind[t] = DependencyKind::kLane;
    }
    busy_[lane] = 1;
    last_on_lane_[lane] = t;
    begin(t, now);
  }

  const Graph& g_;
  const Ns* cost_;
  const Schedule* schedule_;
  const Contention& c_;
  Timeline& out_;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> queue_;
  std::vector<std::uint32_t> pending_, version_, flows_;
  std::vector<char> managed_, busy_;
  std::vector<Ns> free_at_;  // since when a managed lane has had nothing to run
  std::vector<std::vector<std::uint32_t>> waiting_;
  std::vector<std::uint32_t> last_on_lane_;
  std::vector<Running> running_;
  int communicating_ = 0, computing_ = 0;
};

}  // namespace

void simulate_events(const Graph& graph, const Options& options, Timeline& timeline) {
  EventEngine(graph, options, timeline).run();
}

Contention repeat(const Contention& contention, const Graph& graph, std::uint32_t copies) {
  Contention out;
  out.links = contention.links;
  const auto column = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    for (const GraphLane& lane : graph.lanes) {
      for (std::uint32_t c = 0; c < copies; ++c)
        to.insert(to.end(), from.begin() + lane.begin, from.begin() + lane.end);
    }
  };
  column(contention.speed_in_communication, out.speed_in_communication);
  column(contention.speed_in_computation, out.speed_in_computation);
  column(contention.link, out.link);
  return out;
}

}  // namespace foretrace::simulate
