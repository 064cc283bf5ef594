// Copies one graph into another. Ids change, so names, launches, dependencies and layers are mapped.

#include "ranks/merge.hpp"

#include "graph/task_row.hpp"

namespace foretrace::ranks {

using graph::DependencyKind;
using graph::Graph;
using graph::GraphLane;
using graph::LayerId;
using graph::TaskKind;

std::uint32_t Merger::open_lane(graph::GraphLaneKind kind, std::string_view name) {
  GraphLane lane;
  lane.kind = kind;
  lane.name = out_.strings.intern(name);
  lane.begin = lane.end = static_cast<std::uint32_t>(out_.size());
  out_.lanes.push_back(lane);
  return static_cast<std::uint32_t>(out_.lanes.size() - 1);
}

std::uint32_t Merger::add_task(TaskKind kind, Ns cost, Ns measured, std::string_view name) {
  return append_task(out_,
                     {.kind = kind,
                      .cost = cost,
                      .lane = static_cast<std::uint32_t>(out_.lanes.size() - 1),
                      .name = out_.strings.intern(name),
                      .phase = kind == TaskKind::kCollective ? graph::Phase::kCommunication : graph::Phase::kOther,
                      .measured = measured});
}

void Merger::close_lane() { out_.lanes.back().end = static_cast<std::uint32_t>(out_.size()); }

void Merger::copy_task(const Graph& g, std::uint32_t t, Ns shift) {
  StringId& name = names_[g.name[t].index()];
  if (!name.valid()) name = out_.strings.intern(g.task_name(t));
  graph::TaskRow row = graph::row_of(g, t);
  row.name = name;
  row.lane = static_cast<std::uint32_t>(out_.lanes.size() - 1);
  if (row.layer.valid()) row.layer = LayerId{static_cast<std::uint32_t>(row.layer.value + out_.layers.size())};
  row.measured += shift;
  row.soft = kNone;  // this and the launch are mapped at the end of copy()
  row.priority = 0;
  append_task(out_, row);
}

void Merger::copy(const Graph& g, Ns shift, const std::vector<char>& split) {
  names_.assign(g.strings.size(), StringId{});
  place_.resize(g.size());
  const auto first = static_cast<std::uint32_t>(out_.size());
  for (const GraphLane& from : g.lanes) {
    GraphLane lane = from;
    lane.name = out_.strings.intern(g.strings[from.name]);
    lane.begin = static_cast<std::uint32_t>(out_.size());
    out_.lanes.push_back(lane);
    for (std::uint32_t t = from.begin; t < from.end; ++t) {
      place_[t] = static_cast<std::uint32_t>(out_.size());
      copy_task(g, t, shift);
      if (split[t] == 0) continue;
      copy_task(g, t, shift);
      out_.lane_lag.back() = 0;
    }
    out_.lanes.back().end = static_cast<std::uint32_t>(out_.size());
  }
  for (std::uint32_t t = first; t < out_.size(); ++t) {
    if (out_.launch[t].valid()) out_.launch[t] = TaskId{place_[out_.launch[t].value]};
  }
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] == DependencyKind::kShare) continue;  // finish() adds those
      const std::uint32_t point = g.dep_point[d];
      const std::uint32_t to = place_[g.dep_to[d]];
      if (split[t] == 0 || point == 0) {
        depend(place_[t], to, g.dep_lag[d], g.dep_kind[d], point);
      } else {
        // A point inside a kernel that waits is a distance from its end.
        const Ns left = g.cost[t] - graph::point_in(g.cost[t], point);
        depend(tail(t), to, g.dep_lag[d] - left, g.dep_kind[d]);
      }
    }
    if (g.soft[t] == kNone) continue;
    graph::SoftDependency soft = g.soft_dependencies[g.soft[t]];
    const std::uint32_t from = soft.from.value;
    const bool behind = split[from] != 0 && soft.point != 0;  // not the arrival: what follows the transfer
    soft.from = TaskId{behind ? tail(from) : place_[from]};
    if (behind) soft.point = soft.point == graph::kWhole ? graph::kWhole : 0;
    out_.soft[place_[t]] = static_cast<std::uint32_t>(out_.soft_dependencies.size());
    out_.soft_dependencies.push_back(soft);
  }
  for (graph::CarriedDependency c : g.carried) {
    const bool behind = split[c.dependency.from] != 0 && c.dependency.point != 0;
    if (behind) c.dependency.point = graph::kWhole;
    c.dependency.from = behind ? tail(c.dependency.from) : place_[c.dependency.from];
    c.dependency.to = place_[c.dependency.to];
    out_.carried.push_back(c);
  }
  for (const graph::Layer& layer : g.layers) {
    graph::Layer copied = layer;
    copied.name = out_.strings.intern(g.strings[layer.name]);
    if (layer.type.valid()) copied.type = out_.strings.intern(g.strings[layer.type]);
    out_.layers.push_back(copied);
  }
}

void Merger::add_notes(const Graph::Notes& notes) {
  Graph::Notes& all = out_.notes;
  all.refuted_waits += notes.refuted_waits;
  all.unexplained_lags += notes.unexplained_lags;
  all.unexplained_time += notes.unexplained_time;
  all.orphans += notes.orphans;
  all.early_kernels += notes.early_kernels;
  all.dropped_soft += notes.dropped_soft;
  all.dropped_dependencies += notes.dropped_dependencies;
  all.border_tasks += notes.border_tasks;
  all.foreign_events += notes.foreign_events;
}

}  // namespace foretrace::ranks
