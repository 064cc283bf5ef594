#include "foretrace/graph/build.hpp"

#include <algorithm>

#include "graph/step_state.hpp"

namespace foretrace::graph {

std::uint32_t StepState::add_task(TaskKind kind, Ns cost, Ns measured, StringId trace_name, std::uint32_t event,
                                  std::uint32_t op) {
  Graph& g = graph;
  g.kind.push_back(kind);
  g.cost.push_back(cost);
  g.lane_lag.push_back(0);
  g.lane.push_back(static_cast<std::uint32_t>(g.lanes.size() - 1));
  StringId& name = names[trace_name.index()];
  if (!name.valid()) name = g.strings.intern(trace().strings[trace_name]);
  g.name.push_back(name);
  g.phase.push_back(Phase::kOther);
  g.layer.push_back(LayerId{});
  g.launch.push_back(TaskId{});
  g.event.push_back(EventId{event});
  g.op.push_back(EventId{op});
  g.measured.push_back(measured);
  g.soft.push_back(Graph::kNoSoft);
  g.work.push_back(Graph::kNoWork);
  g.origin.push_back(Origin::kMeasured);
  return static_cast<std::uint32_t>(g.size() - 1);
}

std::uint32_t StepState::open_lane(GraphLaneKind kind, std::uint32_t trace_lane) {
  GraphLane lane;
  lane.kind = kind;
  lane.begin = lane.end = static_cast<std::uint32_t>(graph.size());
  lane.trace_lane = LaneId{trace_lane};
  lane.name = graph.strings.intern(trace_lane == kNone ? std::string("step") : trace().lane_label(LaneId{trace_lane}));
  graph.lanes.push_back(lane);
  return static_cast<std::uint32_t>(graph.lanes.size() - 1);
}

void StepState::close_lane() {
  graph.lanes.back().end = static_cast<std::uint32_t>(graph.size());
  if (graph.lanes.back().begin == graph.lanes.back().end) graph.lanes.pop_back();
}

std::uint32_t StepState::task_before(std::uint32_t graph_lane, Ns when) const {
  const GraphLane& lane = graph.lanes[graph_lane];
  const auto* first = graph.measured.begin() + lane.begin;
  const auto* last = graph.measured.begin() + lane.end;
  const auto* it = std::lower_bound(first, last, when);
  return it == first ? kNone : static_cast<std::uint32_t>(it - graph.measured.begin() - 1);
}

namespace {

// The thread a step lives on: the one its range lies on, else the one that works most in it.
std::uint32_t main_lane_of(const TraceIndex& index, const trace::Step& step) {
  if (step.lane.valid()) return step.lane.value;
  std::uint32_t best = kNone;
  std::size_t most = 0;
  std::vector<std::size_t> launches(index.cpu.size(), 0);
  for (auto c = std::lower_bound(index.calls.begin(), index.calls.end(), step.start,
                                 [](const Call& x, Ns t) { return x.begin < t; });
       c != index.calls.end() && c->begin < step.end; ++c) {
    launches[c->lane] += c->role == CallRole::kLaunch ? 3 : 1;
  }
  for (std::uint32_t lane = 0; lane < index.cpu.size(); ++lane) {
    std::size_t weight = launches[lane];
    if (weight == 0 && index.has_ops[lane] != 0) weight = 1;
    if (weight > most) {
      most = weight;
      best = lane;
    }
  }
  return best;
}

bool outlives(const TraceIndex& index, const trace::Step& step, std::uint32_t main) {
  const auto first = std::lower_bound(index.calls.begin(), index.calls.end(), step.start,
                                      [](const Call& c, Ns t) { return c.begin < t; });
  for (auto c = first; c != index.calls.end() && c->begin < step.end; ++c) {
    if (main != kNone && index.trace.lanes[c->lane].pid != index.trace.lanes[main].pid) continue;
    for (std::uint32_t i = 0; i < c->works; ++i) {
      if (index.work[index.work_by_call[c->first_work + i]].end > step.end) return true;
    }
  }
  return false;
}

// All dependencies that `keeps` keeps; soft ones are left to finish().
template <class Keeps>
std::vector<Dependency> dependencies_of(const Graph& g, Keeps keeps) {
  std::vector<Dependency> kept;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] == DependencyKind::kShare || !keeps(t, g.dep_to[d])) continue;
      kept.push_back({t, g.dep_to[d], g.dep_lag[d], g.dep_point[d], g.dep_kind[d]});
    }
  }
  return kept;
}

// Some reasons are inferred from times, and clocks err. Where reasons contradict each other, the least certain go first:
// sharing the device, then the bounds of launch queues, then whatever leads back in measured time; lanes are in measured
// order, so that nothing is left that could make a cycle.
Status make_sound(Graph& g) {
  if (Status sound = verify(g)) return sound;
  const auto all = [](std::uint32_t, std::uint32_t) { return true; };
  g.notes.dropped_soft += g.soft_dependencies.size();
  g.soft_dependencies.clear();
  std::fill(g.soft.begin(), g.soft.end(), Graph::kNoSoft);
  finish(g, dependencies_of(g, all));
  if (Status sound = verify(g)) return sound;
  for (GraphLane& lane : g.lanes) lane.queue_depth = 0;
  finish(g, dependencies_of(g, all));
  if (Status sound = verify(g)) return sound;
  const std::size_t before = g.dependencies();
  finish(g, dependencies_of(g, [&](std::uint32_t from, std::uint32_t to) {
           return g.measured[from] != g.measured[to] ? g.measured[from] < g.measured[to] : from < to;
         }));
  g.notes.dropped_dependencies += before - g.dependencies();
  return verify(g);
}

Graph build_step(const TraceIndex& index, const trace::Steps& steps, std::size_t which, const BuildOptions& options) {
  const trace::Step& step = steps.steps[which];
  Graph graph;
  StepState s{index, options, graph};
  s.main = main_lane_of(index, step);
  s.begin = step.start;
  s.end = step.end;
  s.periodic = !options.alone && outlives(index, step, s.main);
  if (s.periodic && which + 1 < steps.steps.size()) s.end = std::max(step.end, steps.steps[which + 1].start);
  s.names.assign(index.trace.strings.size(), StringId{});
  const auto by_begin = [](const Call& c, Ns t) { return c.begin < t; };
  s.first_call = static_cast<std::uint32_t>(
      std::lower_bound(index.calls.begin(), index.calls.end(), s.begin, by_begin) - index.calls.begin());
  s.last_call = static_cast<std::uint32_t>(std::lower_bound(index.calls.begin(), index.calls.end(), s.end, by_begin) -
                                           index.calls.begin());

  find_bursts(s);
  tile_cpu_lanes(s);
  graph.last = TaskId{graph.lanes.front().end - 1};
  place_gpu_work(s);
  if (s.main == kNone) {
    // Without a CPU the step ends with its last GPU task.
    for (std::uint32_t t = 0; t < graph.size(); ++t) {
      if (graph.measured[t] + graph.cost[t] > graph.measured[graph.last.index()] + graph.cost[graph.last.index()]) {
        graph.last = TaskId{t};
      }
    }
  }
  resolve_stream_waits(s);
  set_device_lags(s);
  add_syncs(s);
  finish(graph, std::move(s.dependencies));
  graph.step_name = step.name;
  graph.traced = step.duration();
  graph.periodic = s.periodic;
  graph.main_lane = 0;
  graph.notes.orphans = index.orphans;
  graph.notes.early_kernels = index.early;
  graph.notes.queue_depth_measured = index.queue_depth_measured;
  assign_layers(index, graph, s.begin);
  return graph;
}

}  // namespace

GraphBuilder::GraphBuilder(const trace::Trace& trace, const trace::Steps& steps)
    : trace_(&trace),
      steps_(&steps),
      index_(std::make_unique<TraceIndex>(trace, steps.steps.empty() ? 0 : steps.steps.front().start)) {}
GraphBuilder::~GraphBuilder() = default;
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;

Result<Graph> GraphBuilder::build(std::size_t which, const BuildOptions& options) const {
  if (which >= steps_->steps.size()) {
    return fail(ErrorCode::kDeclined, "the trace holds no step", "record at least one step with torch.profiler");
  }
  const trace::Step& step = steps_->steps[which];
  if (index_->far(step.start) || index_->far(step.end)) {
    return fail(ErrorCode::kDeclined, step.name + " lies days away from the first step",
                "the trace's clock is broken, or the file holds several recordings");
  }
  Graph graph = build_step(*index_, *steps_, which, options);
  if (graph.size() <= 1) {
    return fail(ErrorCode::kDeclined, steps_->steps[which].name + " holds no work",
                "no operation, call or kernel lies inside the step's range");
  }
  FORETRACE_TRY_VOID(make_sound(graph));
  return graph;
}

Graph repeat(const Graph& g, std::uint32_t copies) {
  // Lane by lane: all copies of a lane in a row. Task t of a lane becomes lane start * copies + copy * length + offset.
  Graph out;
  out.strings = g.strings;
  out.layers = g.layers;
  out.step_name = g.step_name;
  out.traced = g.traced;
  out.main_lane = g.main_lane;
  out.periodic = g.periodic;
  out.copies = g.copies * copies;
  out.notes = g.notes;
  out.lanes = g.lanes;
  const auto place = [&](std::uint32_t t, std::uint32_t copy) {
    const GraphLane& lane = g.lanes[g.lane[t]];
    return lane.begin * copies + copy * (lane.end - lane.begin) + (t - lane.begin);
  };
  for (GraphLane& lane : out.lanes) {
    lane.begin *= copies;
    lane.end *= copies;
  }
  std::vector<Dependency> all;
  all.reserve(g.dep_to.size() * copies);
  for (const GraphLane& lane : g.lanes) {
    for (std::uint32_t copy = 0; copy < copies; ++copy) {
      for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
        out.kind.push_back(g.kind[t]);
        out.cost.push_back(g.cost[t]);
        out.lane_lag.push_back(g.lane_lag[t]);
        out.lane.push_back(g.lane[t]);
        out.name.push_back(g.name[t]);
        out.phase.push_back(g.phase[t]);
        out.layer.push_back(g.layer[t]);
        out.launch.push_back(g.launch[t].valid() ? TaskId{place(g.launch[t].value, copy)} : TaskId{});
        out.event.push_back(g.event[t]);
        out.op.push_back(g.op[t]);
        out.measured.push_back(g.measured[t]);
        out.soft.push_back(Graph::kNoSoft);
        out.work.push_back(g.work[t]);
        out.origin.push_back(g.origin[t]);
        if (!g.priority.empty()) out.priority.push_back(g.priority[t]);
        if (g.soft[t] != Graph::kNoSoft) {
          SoftDependency soft = g.soft_dependencies[g.soft[t]];
          soft.from = TaskId{place(soft.from.value, copy)};
          out.soft.back() = static_cast<std::uint32_t>(out.soft_dependencies.size());
          out.soft_dependencies.push_back(soft);
        }
        for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
          if (g.dep_kind[d] == DependencyKind::kShare) continue;  // finish() adds those
          all.push_back({place(t, copy), place(g.dep_to[d], copy), g.dep_lag[d], g.dep_point[d], g.dep_kind[d]});
        }
      }
    }
  }
  finish(out, std::move(all));
  out.last = TaskId{place(g.last.value, copies - 1)};
  return out;
}

}  // namespace foretrace::graph
