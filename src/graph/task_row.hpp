#pragma once
// A task to be added to a graph: one entry of every column, so that code that makes or copies tasks sets only what differs
// and a new column is added in one place.

#include <algorithm>
#include <tuple>

#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

/// The columns that have an entry for every task; `priority` and `recorded` may be empty.
inline constexpr auto kTaskColumns = std::make_tuple(
    &Graph::kind, &Graph::cost, &Graph::lane_lag, &Graph::lane, &Graph::name, &Graph::phase, &Graph::layer,
    &Graph::launch, &Graph::event, &Graph::op, &Graph::measured, &Graph::soft, &Graph::origin);

/// Calls use(pointer to the column) for each of them.
template <class Use>
void each_task_column(Use use) {
  std::apply([&](auto... column) { (use(column), ...); }, kTaskColumns);
}

struct TaskRow {
  TaskKind kind = TaskKind::kCpu;
  Ns cost = 0;
  Ns lane_lag = 0;
  std::uint32_t lane = 0;
  StringId name = {};
  Phase phase = Phase::kOther;
  LayerId layer = {};
  TaskId launch = {};
  EventId event = {};
  EventId op = {};
  Ns measured = 0;
  std::uint32_t soft = kNone;
  Origin origin = Origin::kMeasured;
  std::int32_t priority = 0;
  Recorded recorded = {};
};

inline TaskRow row_of(const Graph& g, std::uint32_t t) {
  return {g.kind[t],  g.cost[t], g.lane_lag[t], g.lane[t], g.name[t],   g.phase[t],       g.layer[t],      g.launch[t],
          g.event[t], g.op[t],   g.measured[t], g.soft[t], g.origin[t], g.priority_of(t), g.recorded_in(t)};
}

/// Behind the last task; returns its id.
inline std::uint32_t append_task(Graph& g, const TaskRow& row) {
  if (row.priority != 0 && g.priority.empty()) g.priority.resize(g.size(), 0);
  if (row.priority != 0 || !g.priority.empty()) g.priority.push_back(row.priority);
  const bool recorded = row.recorded != Recorded{};
  if (recorded && g.recorded.empty()) g.recorded.resize(g.size(), Recorded{});
  if (recorded || !g.recorded.empty()) g.recorded.push_back(row.recorded);
  g.kind.push_back(row.kind);
  g.cost.push_back(row.cost);
  g.lane_lag.push_back(row.lane_lag);
  g.lane.push_back(row.lane);
  g.name.push_back(row.name);
  g.phase.push_back(row.phase);
  g.layer.push_back(row.layer);
  g.launch.push_back(row.launch);
  g.event.push_back(row.event);
  g.op.push_back(row.op);
  g.measured.push_back(row.measured);
  g.soft.push_back(row.soft);
  g.origin.push_back(row.origin);
  return static_cast<std::uint32_t>(g.size() - 1);
}

/// Tasks `first` up to `end` of another graph, all on one lane of this one; returns the id of the first.
inline std::uint32_t append_tasks(Graph& g, const Graph& from, std::uint32_t first, std::uint32_t end,
                                  std::uint32_t lane) {
  const auto id = static_cast<std::uint32_t>(g.size());
  const std::size_t n = end - first;
  if (!from.priority.empty() || !from.recorded.empty() || !g.priority.empty() || !g.recorded.empty()) {
    for (std::uint32_t t = first; t < end; ++t) {
      TaskRow row = row_of(from, t);
      row.lane = lane;
      append_task(g, row);
    }
    return id;
  }
  each_task_column([&](auto column) { (g.*column).append((from.*column).data() + first, n); });
  std::fill(g.lane.begin() + id, g.lane.end(), lane);
  return id;
}

/// Room for so many tasks, so that adding them moves nothing.
inline void reserve_tasks(Graph& g, std::size_t tasks) {
  each_task_column([&](auto column) { (g.*column).reserve(tasks); });
}

/// A graph of the same step without lanes, tasks and dependencies.
inline Graph empty_like(const Graph& g) {
  Graph out;
  out.strings = g.strings;
  out.layers = g.layers;
  out.step_name = g.step_name;
  out.traced = g.traced;
  out.period = g.period;
  out.ramp_up = g.ramp_up;
  out.recorded_steps = g.recorded_steps;
  out.main_lane = g.main_lane;
  out.periodic = g.periodic;
  out.notes = g.notes;
  return out;
}

}  // namespace foretrace::graph
