#pragma once
// A task on its way into a graph: one entry of every column, so that whoever makes or copies tasks names only what differs
// and a new column is added in one place.

#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

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
  const auto copy = [&](auto& to, const auto& column) { to.append(column.data() + first, n); };
  copy(g.kind, from.kind);
  copy(g.cost, from.cost);
  copy(g.lane_lag, from.lane_lag);
  copy(g.name, from.name);
  copy(g.phase, from.phase);
  copy(g.layer, from.layer);
  copy(g.launch, from.launch);
  copy(g.event, from.event);
  copy(g.op, from.op);
  copy(g.measured, from.measured);
  copy(g.soft, from.soft);
  copy(g.origin, from.origin);
  g.lane.resize(id + n, lane);
  return id;
}

/// Room for so many tasks, so that adding them moves nothing.
inline void reserve_tasks(Graph& g, std::size_t tasks) {
  g.kind.reserve(tasks);
  g.cost.reserve(tasks);
  g.lane_lag.reserve(tasks);
  g.lane.reserve(tasks);
  g.name.reserve(tasks);
  g.phase.reserve(tasks);
  g.layer.reserve(tasks);
  g.launch.reserve(tasks);
  g.event.reserve(tasks);
  g.op.reserve(tasks);
  g.measured.reserve(tasks);
  g.soft.reserve(tasks);
  g.origin.reserve(tasks);
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
  out.main_lane = g.main_lane;
  out.periodic = g.periodic;
  out.notes = g.notes;
  return out;
}

}  // namespace foretrace::graph
