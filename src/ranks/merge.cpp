#include "ranks/merge.hpp"

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
  out_.kind.push_back(kind);
  out_.cost.push_back(cost);
  out_.lane_lag.push_back(0);
  out_.lane.push_back(static_cast<std::uint32_t>(out_.lanes.size() - 1));
  out_.name.push_back(out_.strings.intern(name));
  out_.phase.push_back(kind == TaskKind::kCollective ? graph::Phase::kCommunication : graph::Phase::kOther);
  out_.layer.push_back(LayerId{});
  out_.launch.push_back(TaskId{});
  out_.event.push_back(EventId{});
  out_.op.push_back(EventId{});
  out_.measured.push_back(measured);
  out_.soft.push_back(Graph::kNoSoft);
  out_.work.push_back(Graph::kNoWork);
  out_.origin.push_back(graph::Origin::kMeasured);
  return static_cast<std::uint32_t>(out_.size() - 1);
}

void Merger::close_lane() { out_.lanes.back().end = static_cast<std::uint32_t>(out_.size()); }

void Merger::copy_task(const Graph& g, std::uint32_t t, Ns shift) {
  const auto name = [&](StringId id) {
    StringId& known = names_[id.index()];
    if (!known.valid()) known = out_.strings.intern(g.strings[id]);
    return known;
  };
  out_.kind.push_back(g.kind[t]);
  out_.cost.push_back(g.cost[t]);
  out_.lane_lag.push_back(g.lane_lag[t]);
  out_.lane.push_back(static_cast<std::uint32_t>(out_.lanes.size() - 1));
  out_.name.push_back(name(g.name[t]));
  out_.phase.push_back(g.phase[t]);
  out_.layer.push_back(g.layer[t].valid() ? LayerId{static_cast<std::uint32_t>(g.layer[t].value + out_.layers.size())}
                                          : LayerId{});
  out_.launch.push_back(g.launch[t]);  // mapped at the end of copy()
  out_.event.push_back(g.event[t]);
  out_.op.push_back(g.op[t]);
  out_.measured.push_back(g.measured[t] + shift);
  out_.soft.push_back(Graph::kNoSoft);
  out_.work.push_back(Graph::kNoWork);
  out_.origin.push_back(g.origin[t]);
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
    if (g.soft[t] == Graph::kNoSoft) continue;
    graph::SoftDependency soft = g.soft_dependencies[g.soft[t]];
    const std::uint32_t from = soft.from.value;
    soft.from = TaskId{split[from] != 0 ? tail(from) : place_[from]};
    if (split[from] != 0) soft.point = soft.point == graph::kWhole ? graph::kWhole : 0;
    out_.soft[place_[t]] = static_cast<std::uint32_t>(out_.soft_dependencies.size());
    out_.soft_dependencies.push_back(soft);
  }
  for (const graph::Layer& layer : g.layers) {
    graph::Layer copied = layer;
    copied.name = out_.strings.intern(g.strings[layer.name]);
    if (layer.type.valid()) copied.type = out_.strings.intern(g.strings[layer.type]);
    out_.layers.push_back(copied);
  }
}

}  // namespace foretrace::ranks
