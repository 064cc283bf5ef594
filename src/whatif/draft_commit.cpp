// Turning a draft into a graph: one pass over the lanes, one over the dependencies.

#include <algorithm>

#include "foretrace/whatif/draft.hpp"

namespace foretrace::whatif {

namespace {

constexpr std::uint32_t kGone = 0xFFFF'FFFFu;

void copy_cost_only(Graph& out, const Column<Ns>& cost, const std::vector<graph::Origin>& origin) {
  if (cost.empty()) return;
  for (std::size_t t = 0; t < out.size(); ++t) {
    out.cost[t] = cost[t];
    out.origin[t] = origin[t];
  }
}

}  // namespace

// What waited for a removed task waits for what that one waited for, through any number of removed tasks. Lane neighbours
// are linked already, a kernel whose call is gone waits for its stream alone, and with a wait goes what it waited for.
void Draft::link_across_removed(const std::vector<std::uint32_t>& place, std::vector<graph::Dependency>& all) const {
  const Graph& g = base_;
  struct Hop {
    std::uint32_t task;
    Ns lag;
    std::uint32_t point;
  };
  std::vector<Hop> open;
  std::vector<std::uint32_t> seen(g.size(), kGone);  // by the last source that came through
  for (std::uint32_t source = 0; source < g.size(); ++source) {
    if (place[source] == kGone) continue;
    const auto follow = [&](std::uint32_t through, Ns lag, std::uint32_t point) {
      for (std::uint32_t d = g.dep_begin[through]; d < g.dep_begin[through + 1]; ++d) {
        const std::uint32_t to = g.dep_to[d];
        if (g.dep_kind[d] == DependencyKind::kShare) continue;
        if (place[to] == kGone) {
          if (seen[to] == source || g.kind[to] == TaskKind::kWait) continue;
          seen[to] = source;
          open.push_back({to, lag + g.dep_lag[d], through == source ? g.dep_point[d] : point});
        } else if (through != source && g.dep_kind[d] != DependencyKind::kLaunch && g.lane[to] != g.lane[source]) {
          all.push_back({place[source], place[to], lag + g.dep_lag[d], point, g.dep_kind[d]});
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

Graph Draft::commit() const {
  const Graph& g = base_;
  if (!structural_) {
    Graph out = g;
    copy_cost_only(out, cost_, origin_);
    for (const auto& [task, lag] : lane_lags_) out.lane_lag[task] = lag;
    for (const auto& [task, work] : works_) out.work[task] = work;
    return out;
  }

  Graph out;
  out.strings = g.strings;
  out.layers = g.layers;
  out.step_name = g.step_name;
  out.traced = g.traced;
  out.main_lane = g.main_lane;
  out.periodic = g.periodic || periodic_;
  out.notes = g.notes;

  // Inserted tasks by what they follow, in order of insertion; those that follow an inserted task come right behind it.
  const std::size_t total = g.size() + added_.size();
  std::vector<std::uint32_t> head(total, kGone);
  std::vector<std::uint32_t> tail(total, kGone);
  std::vector<std::uint32_t> next(added_.size(), kGone);
  std::vector<std::vector<std::uint32_t>> at_lane_end(g.lanes.size() + new_lanes_.size());
  for (std::uint32_t i = 0; i < added_.size(); ++i) {
    if (added_[i].after == kNoTask) {
      at_lane_end[added_[i].lane].push_back(i);
      continue;
    }
    std::uint32_t& last = tail[added_[i].after];
    if (last == kGone) {
      head[added_[i].after] = i;
    } else {
      next[last] = i;
    }
    last = i;
  }

  std::vector<std::uint32_t> place(total, kGone);  // draft id -> new id
  const auto put_base = [&](std::uint32_t t) {
    place[t] = static_cast<std::uint32_t>(out.size());
    out.kind.push_back(g.kind[t]);
    out.cost.push_back(cost(t));
    out.lane_lag.push_back(g.lane_lag[t]);
    out.lane.push_back(static_cast<std::uint32_t>(out.lanes.size() - 1));
    out.name.push_back(g.name[t]);
    out.phase.push_back(g.phase[t]);
    out.layer.push_back(g.layer[t]);
    out.launch.push_back(g.launch[t]);
    out.event.push_back(g.event[t]);
    out.op.push_back(g.op[t]);
    out.measured.push_back(g.measured[t]);
    out.soft.push_back(g.soft[t]);
    out.work.push_back(g.work[t]);
    out.origin.push_back(origin_.empty() ? g.origin[t] : origin_[t]);
    if (!g.priority.empty()) out.priority.push_back(g.priority[t]);
  };
  const auto put_new = [&](std::uint32_t i) {
    const NewTask& n = added_[i];
    place[g.size() + i] = static_cast<std::uint32_t>(out.size());
    out.kind.push_back(n.kind);
    out.cost.push_back(std::max<Ns>(0, n.cost));
    out.lane_lag.push_back(n.lane_lag);
    out.lane.push_back(static_cast<std::uint32_t>(out.lanes.size() - 1));
    out.name.push_back(out.strings.intern(n.name));
    out.phase.push_back(n.phase);
    out.layer.push_back(n.layer);
    out.launch.push_back(n.launch == kNoTask ? TaskId{} : TaskId{n.launch});
    out.event.push_back(EventId{});
    out.op.push_back(n.after != kNoTask && n.after < g.size() ? g.op[n.after] : EventId{});
    out.measured.push_back(n.after != kNoTask && n.after < g.size() ? g.measured[n.after] : 0);
    out.soft.push_back(Graph::kNoSoft);
    out.work.push_back(n.work);
    out.origin.push_back(n.origin);
    if (!g.priority.empty()) out.priority.push_back(0);
  };
  std::vector<std::uint32_t> stack;
  const auto put_followers = [&](std::uint32_t id) {
    if (head[id] == kGone) return;
    // Depth first: followers of a follower come before its sibling.
    stack.assign(1, head[id]);
    while (!stack.empty()) {
      const std::uint32_t i = stack.back();
      stack.pop_back();
      put_new(i);
      if (next[i] != kGone) stack.push_back(next[i]);
      if (head[g.size() + i] != kGone) stack.push_back(head[g.size() + i]);
    }
  };
  for (std::uint32_t l = 0; l < g.lanes.size() + new_lanes_.size(); ++l) {
    const bool fresh = l >= g.lanes.size();
    graph::GraphLane lane = fresh ? new_lanes_[l - g.lanes.size()] : g.lanes[l];
    if (fresh) lane.name = out.strings.intern(new_lane_names_[l - g.lanes.size()]);
    lane.begin = static_cast<std::uint32_t>(out.size());
    out.lanes.push_back(lane);
    if (!fresh) {
      for (std::uint32_t t = g.lanes[l].begin; t < g.lanes[l].end; ++t) {
        if (!removed(t)) put_base(t);
        put_followers(t);
      }
    }
    for (const std::uint32_t i : at_lane_end[l]) {
      put_new(i);
      put_followers(static_cast<std::uint32_t>(g.size() + i));
    }
    out.lanes.back().end = static_cast<std::uint32_t>(out.size());
  }
  for (const auto& [task, lag] : lane_lags_) {
    if (place[task] != kGone) out.lane_lag[place[task]] = lag;
  }
  for (const auto& [task, work] : works_) {
    if (place[task] != kGone) out.work[place[task]] = work;
  }

  for (const auto& [task, priority] : priorities_) {
    if (place[task] == kGone) continue;
    if (out.priority.empty()) out.priority.resize(out.size(), 0);
    out.priority[place[task]] = priority;
    out.lanes[out.lane[place[task]]].by_priority = true;
  }

  // A removed task's place is taken by its neighbour on the lane: the one before it where it was waited for, the one
  // behind it where it waited.
  std::vector<std::uint32_t> before(total, kGone);
  std::vector<std::uint32_t> behind(total, kGone);
  for (const graph::GraphLane& lane : g.lanes) {
    std::uint32_t last = kGone;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (!removed(t)) last = place[t];
      before[t] = last;
    }
    last = kGone;
    for (std::uint32_t t = lane.end; t-- > lane.begin;) {
      if (!removed(t)) last = place[t];
      behind[t] = last;
    }
  }
  for (std::size_t i = g.size(); i < total; ++i) before[i] = behind[i] = place[i];

  std::vector<std::uint8_t> relaunched(launches_.empty() ? 0 : total, 0);
  for (const auto& [task, call] : launches_) {
    relaunched[task] = 1;
    if (place[task] != kGone) out.launch[place[task]] = TaskId{call};
  }
  for (std::size_t t = 0; t < out.size(); ++t) {
    if (out.launch[t].valid()) {
      const std::uint32_t call = place[out.launch[t].index()];
      out.launch[t] = call == kGone ? TaskId{} : TaskId{call};
    }
    if (out.soft[t] == Graph::kNoSoft) continue;
    graph::SoftDependency soft = g.soft_dependencies[out.soft[t]];
    const std::uint32_t from = place[soft.from.index()];
    out.soft[t] = Graph::kNoSoft;
    if (from == kGone) continue;
    soft.from = TaskId{from};
    out.soft[t] = static_cast<std::uint32_t>(out.soft_dependencies.size());
    out.soft_dependencies.push_back(soft);
  }
  std::vector<graph::Dependency> all;
  const auto keep = [&](const graph::Dependency& d) {
    const bool launch = d.kind == DependencyKind::kLaunch;
    if (launch && (place[d.from] == kGone || place[d.to] == kGone)) return;
    if (d.to < g.size() && place[d.to] == kGone && g.kind[d.to] == TaskKind::kWait) return;
    const std::uint32_t from = before[d.from];
    const std::uint32_t to = behind[d.to];
    if (from == kGone || to == kGone || (from == to && d.from != d.to)) return;
    const bool moved = from != place[d.from];
    all.push_back({from, to, d.lag, moved ? graph::kWhole : d.point, d.kind});
  };
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] == DependencyKind::kShare) continue;  // finish() adds those from soft_dependencies
      if (g.dep_kind[d] == DependencyKind::kLaunch && !relaunched.empty() && relaunched[g.dep_to[d]] != 0) continue;
      keep({t, g.dep_to[d], g.dep_lag[d], g.dep_point[d], g.dep_kind[d]});
    }
  }
  for (const graph::Dependency& d : dependencies_) keep(d);
  if (!removed_.empty()) link_across_removed(place, all);
  const std::uint32_t last = before[g.last.index()];
  const graph::GraphLane& end_lane = out.lanes[g.lane[g.last.index()]];
  out.last = TaskId{last == kGone ? end_lane.begin : std::max(last, end_lane.end - 1)};
  finish(out, std::move(all));
  return out;
}

}  // namespace foretrace::whatif
