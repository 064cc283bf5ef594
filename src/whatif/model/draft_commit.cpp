// Turning a draft into a graph: one pass over the lanes, one over the dependencies.

#include <algorithm>

#include "foretrace/whatif/draft.hpp"
#include "graph/task_row.hpp"
#include "whatif/model/draft_launch_order.hpp"

namespace foretrace::whatif {

/// The parts of a structural commit, in the order in which they run.
class Draft::Commit {
 public:
  explicit Commit(const Draft& draft)
      : d_(draft),
        g_(draft.base_),
        total_(g_.size() + draft.added_.size()),
        out_(graph::empty_like(g_)),
        place_(total_, kNone),
        before_(total_, kNone),
        behind_(total_, kNone) {
    out_.periodic |= d_.periodic_;
    reserve_tasks(out_, total_);
  }

  Graph run(work::Works* works) {
    queue_added();
    const auto lanes = static_cast<std::uint32_t>(g_.lanes.size() + d_.new_lanes_.size());
    std::vector<std::vector<std::uint32_t>> tasks(lanes);
    for (std::uint32_t l = 0; l < lanes; ++l) tasks[l] = tasks_of(l);
    LaunchOrder order(d_, tasks);
    for (std::uint32_t l = 0; l < lanes; ++l) put_lane(l, order.ordered(l));
    d_.contradicted_ = order.contradicted();
    change_figures();
    if (works != nullptr) describe(*works);
    find_neighbours();
    relink_launches();
    relink_shares();
    relink_carried();
    std::vector<graph::Dependency> all = dependencies();
    if (!d_.removed_.empty()) link_across_removed(all);
    const std::uint32_t last = before_[g_.last.index()];
    const graph::GraphLane& end_lane = out_.lanes[g_.lane[g_.last.index()]];
    out_.last = TaskId{last == kNone ? end_lane.begin : std::max(last, end_lane.end - 1)};
    finish(out_, std::move(all));
    return std::move(out_);
  }

 private:
  // Inserted tasks by what they follow, in order of insertion; those that follow an inserted task come right behind it.
  void queue_added() {
    first_.assign(total_, kNone);
    next_.assign(d_.added_.size(), kNone);
    at_lane_end_.resize(g_.lanes.size() + d_.new_lanes_.size());
    std::vector<std::uint32_t> last(total_, kNone);
    for (std::uint32_t i = 0; i < d_.added_.size(); ++i) {
      const std::uint32_t after = d_.added_[i].after;
      if (after == kNone) {
        at_lane_end_[d_.added_[i].lane].push_back(i);
        continue;
      }
      (last[after] == kNone ? first_[after] : next_[last[after]]) = i;
      last[after] = i;
    }
  }

  // A lane's tasks as they will be there, by draft id. Depth first: followers of a follower come before its sibling.
  std::vector<std::uint32_t> tasks_of(std::uint32_t l) {
    std::vector<std::uint32_t> tasks;
    if (l < g_.lanes.size()) tasks.reserve(g_.lanes[l].end - g_.lanes[l].begin);
    const auto put_with_followers = [&](std::uint32_t id, bool itself) {
      if (itself) tasks.push_back(id);
      if (first_[id] == kNone) return;
      stack_.assign(1, first_[id]);
      while (!stack_.empty()) {
        const std::uint32_t i = stack_.back();
        stack_.pop_back();
        tasks.push_back(static_cast<std::uint32_t>(g_.size() + i));
        if (next_[i] != kNone) stack_.push_back(next_[i]);
        if (first_[g_.size() + i] != kNone) stack_.push_back(first_[g_.size() + i]);
      }
    };
    if (l < g_.lanes.size()) {
      for (std::uint32_t t = g_.lanes[l].begin; t < g_.lanes[l].end; ++t) put_with_followers(t, !d_.removed(t));
    }
    for (const std::uint32_t i : at_lane_end_[l]) put_with_followers(static_cast<std::uint32_t>(g_.size() + i), true);
    return tasks;
  }

  void put_lane(std::uint32_t l, const std::vector<std::uint32_t>& tasks) {
    const bool added = l >= g_.lanes.size();
    graph::GraphLane lane = added ? d_.new_lanes_[l - g_.lanes.size()] : g_.lanes[l];
    if (added) lane.name = out_.strings.intern(d_.new_lane_names_[l - g_.lanes.size()]);
    lane.begin = static_cast<std::uint32_t>(out_.size());
    out_.lanes.push_back(lane);
    for (std::size_t i = 0; i < tasks.size();) {
      if (tasks[i] >= g_.size()) {
        put_new(static_cast<std::uint32_t>(tasks[i++] - g_.size()));
        continue;
      }
      const std::size_t first = i;
      do ++i;
      while (i < tasks.size() && tasks[i] < g_.size() && tasks[i] == tasks[i - 1] + 1);
      put_base(tasks[first], tasks[i - 1] + 1);
    }
    out_.lanes.back().end = static_cast<std::uint32_t>(out_.size());
  }

  // Tasks of the graph that stay neighbours.
  void put_base(std::uint32_t first, std::uint32_t end) {
    std::uint32_t at = append_tasks(out_, g_, first, end, static_cast<std::uint32_t>(out_.lanes.size() - 1));
    for (std::uint32_t t = first; t < end; ++t, ++at) {
      place_[t] = at;
      if (d_.cost_.empty()) continue;
      out_.cost[at] = d_.cost_[t];
      out_.origin[at] = d_.origin_[t];
    }
  }

  void put_new(std::uint32_t i) {
    const NewTask& n = d_.added_[i];
    const bool behind_base = n.after != kNone && n.after < g_.size() && n.like == kNone;
    const bool follows = out_.size() > out_.lanes.back().begin;  // as if it had happened with the task before it
    place_[g_.size() + i] = append_task(out_, {.kind = n.kind,
                                               .cost = std::max<Ns>(0, n.cost),
                                               .lane_lag = n.lane_lag,
                                               .lane = static_cast<std::uint32_t>(out_.lanes.size() - 1),
                                               .name = out_.strings.intern(n.name),
                                               .phase = n.phase,
                                               .layer = n.layer,
                                               .launch = n.launch == kNone ? TaskId{} : TaskId{n.launch},
                                               .event = n.event,
                                               .op = n.op.valid()  ? n.op
                                                     : behind_base ? g_.op[n.after]
                                                                   : EventId{},
                                               .measured = follows ? out_.measured[out_.size() - 1] : 0,
                                               .origin = n.origin});
  }

  void change_figures() {
    for (const auto& [task, lag] : d_.lane_lags_) {
      if (place_[task] != kNone) out_.lane_lag[place_[task]] = lag;
    }
    for (const auto& [task, priority] : d_.priorities_) {
      if (place_[task] == kNone) continue;
      if (out_.priority.empty()) out_.priority.resize(out_.size(), 0);
      out_.priority[place_[task]] = priority;
      out_.lanes[out_.lane[place_[task]]].by_priority = true;
    }
  }

  // Rows follow their tasks. A copy of a task that was changed computes what that one computes now.
  void describe(work::Works& works) const {
    std::vector<std::uint32_t> rows(g_.size(), kNone);
    for (std::uint32_t t = 0; t < g_.size(); ++t) rows[t] = works.row_of(t);
    for (const auto& [task, row] : d_.works_) {
      if (task < rows.size()) rows[task] = row;
    }
    Column<std::uint32_t> of_task(out_.size(), kNone);
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      if (place_[t] != kNone) of_task[place_[t]] = rows[t];
    }
    for (std::size_t i = 0; i < d_.added_.size(); ++i) {
      const NewTask& n = d_.added_[i];
      if (place_[g_.size() + i] == kNone) continue;
      of_task[place_[g_.size() + i]] = n.like == kNone ? n.work : rows[n.like];
    }
    for (const auto& [task, row] : d_.works_) {
      if (place_[task] != kNone) of_task[place_[task]] = row;
    }
    works.of_task = std::move(of_task);
  }

  // A removed task's place is taken by its neighbour on the lane: the one before it where it was waited for, the one
  // behind it where it waited.
  void find_neighbours() {
    for (const graph::GraphLane& lane : g_.lanes) {
      std::uint32_t last = kNone;
      for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
        if (!d_.removed(t)) last = place_[t];
        before_[t] = last;
      }
      last = kNone;
      for (std::uint32_t t = lane.end; t-- > lane.begin;) {
        if (!d_.removed(t)) last = place_[t];
        behind_[t] = last;
      }
    }
    for (std::size_t i = g_.size(); i < total_; ++i) before_[i] = behind_[i] = place_[i];
  }

  void relink_launches() {
    for (const auto& [task, call] : d_.launches_) {
      if (place_[task] != kNone) out_.launch[place_[task]] = TaskId{call};
    }
    for (std::size_t t = 0; t < out_.size(); ++t) {
      if (!out_.launch[t].valid()) continue;
      const std::uint32_t call = place_[out_.launch[t].index()];
      out_.launch[t] = call == kNone ? TaskId{} : TaskId{call};
    }
  }

  void relink_shares() {
    for (std::size_t t = 0; t < out_.size(); ++t) {
      if (out_.soft[t] == kNone) continue;
      const graph::SoftDependency soft = g_.soft_dependencies[out_.soft[t]];
      out_.soft[t] = kNone;
      put_share(t, soft);
    }
    for (const auto& [task, soft] : d_.shares_) put_share(place_[task], soft);
  }

  void put_share(std::size_t t, graph::SoftDependency soft) {
    const std::uint32_t from = place_[soft.from.index()];
    if (from == kNone) return;
    soft.from = TaskId{from};
    out_.soft[t] = static_cast<std::uint32_t>(out_.soft_dependencies.size());
    out_.soft_dependencies.push_back(soft);
  }

  // For a removed task its neighbour speaks, as within the step.
  void relink_carried() {
    std::vector<graph::Dependency> kept;
    for (const graph::CarriedDependency& c : g_.carried) {
      kept.clear();
      keep(c.dependency, kept);
      for (const graph::Dependency& d : kept) out_.carried.push_back({d, c.back});
    }
  }

  void keep(const graph::Dependency& d, std::vector<graph::Dependency>& all) const {
    const bool launch = d.kind == DependencyKind::kLaunch;
    if (launch && (place_[d.from] == kNone || place_[d.to] == kNone)) return;
    if (d.to < g_.size() && place_[d.to] == kNone && g_.kind[d.to] == TaskKind::kWait) return;
    const std::uint32_t from = before_[d.from];
    const std::uint32_t to = behind_[d.to];
    if (from == kNone || to == kNone || (from == to && d.from != d.to)) return;
    const bool moved = from != place_[d.from];
    all.push_back({from, to, d.lag, moved ? graph::kWhole : d.point, d.kind});
  }

  [[nodiscard]] std::vector<graph::Dependency> dependencies() const {
    std::vector<std::uint8_t> relaunched(d_.launches_.empty() ? 0 : total_, 0);
    for (const auto& [task, call] : d_.launches_) relaunched[task] = 1;
    std::vector<graph::Dependency> all;
    all.reserve(g_.dependencies() + d_.dependencies_.size());
    for (std::uint32_t t = 0; t < g_.size(); ++t) {
      for (std::uint32_t d = g_.dep_begin[t]; d < g_.dep_begin[t + 1]; ++d) {
        if (g_.dep_kind[d] == DependencyKind::kShare) continue;  // finish() adds those from soft_dependencies
        if (g_.dep_kind[d] == DependencyKind::kLaunch && !relaunched.empty() && relaunched[g_.dep_to[d]] != 0) continue;
        keep({t, g_.dep_to[d], g_.dep_lag[d], g_.dep_point[d], g_.dep_kind[d]}, all);
      }
    }
    for (const graph::Dependency& d : d_.dependencies_) keep(d, all);
    return all;
  }

  // What waited for a removed task waits for what that one waited for, through any number of removed tasks. Lane
  // neighbours are linked already, a kernel whose call is gone waits for its stream alone, and with a wait goes what it
  // waited for.
  void link_across_removed(std::vector<graph::Dependency>& all) const {
    struct Hop {
      std::uint32_t task;
      Ns lag;
      std::uint32_t point;
    };
    std::vector<Hop> open;
    std::vector<std::uint32_t> seen(g_.size(), kNone);  // by the last source that came through
    for (std::uint32_t source = 0; source < g_.size(); ++source) {
      if (place_[source] == kNone) continue;
      const auto follow = [&](std::uint32_t through, Ns lag, std::uint32_t point) {
        for (std::uint32_t d = g_.dep_begin[through]; d < g_.dep_begin[through + 1]; ++d) {
          const std::uint32_t to = g_.dep_to[d];
          if (g_.dep_kind[d] == DependencyKind::kShare) continue;
          if (place_[to] == kNone) {
            if (seen[to] == source || g_.kind[to] == TaskKind::kWait) continue;
            seen[to] = source;
            open.push_back({to, lag + g_.dep_lag[d], through == source ? g_.dep_point[d] : point});
          } else if (through != source && g_.dep_kind[d] != DependencyKind::kLaunch && g_.lane[to] != g_.lane[source]) {
            all.push_back({place_[source], place_[to], lag + g_.dep_lag[d], point, g_.dep_kind[d]});
          }
        }
      };
      follow(source, 0, graph::kWhole);
      while (!open.empty()) {
        const Hop hop = open.back();
        open.pop_back();
        follow(hop.task, hop.lag, hop.point);
      }
    }
  }

  const Draft& d_;
  const Graph& g_;
  const std::size_t total_;  // tasks of the graph, then the inserted ones
  Graph out_;
  std::vector<std::uint32_t> place_;            // draft id -> new id
  std::vector<std::uint32_t> before_, behind_;  // draft id -> new id of the nearest task that is left
  std::vector<std::uint32_t> first_, next_;     // inserted tasks that follow a task: the first, and the one after each
  std::vector<std::vector<std::uint32_t>> at_lane_end_;
  std::vector<std::uint32_t> stack_;
};

Graph Draft::commit() const { return commit_with(nullptr); }

Graph Draft::commit(work::Works& works) const { return commit_with(&works); }

Graph Draft::commit_with(work::Works* works) const {
  if (structural_) return Commit(*this).run(works);
  Graph out = base_;
  for (std::size_t t = 0; t < cost_.size(); ++t) {
    out.cost[t] = cost_[t];
    out.origin[t] = origin_[t];
  }
  for (const auto& [task, lag] : lane_lags_) out.lane_lag[task] = lag;
  if (works != nullptr) {
    works->of_task.resize(out.size(), kNone);
    for (const auto& [task, row] : works_) works->of_task[task] = row;
  }
  return out;
}

}  // namespace foretrace::whatif
