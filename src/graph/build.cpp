#include <fmt/format.h>

#include <algorithm>

#include "foretrace/graph/graph.hpp"
#include "graph/pace.hpp"
#include "graph/step_state.hpp"
#include "graph/task_row.hpp"

namespace foretrace::graph {

std::uint32_t StepState::add_task(TaskKind kind, Ns cost, Ns measured, StringId trace_name, std::uint32_t event,
                                  std::uint32_t op) {
  StringId& name = names[trace_name.index()];
  if (!name.valid()) name = graph.strings.intern(trace().strings[trace_name]);
  return append_task(graph, {.kind = kind,
                             .cost = cost,
                             .lane = static_cast<std::uint32_t>(graph.lanes.size() - 1),
                             .name = name,
                             .event = EventId{event},
                             .op = EventId{op},
                             .measured = measured});
}

std::uint32_t StepState::add_unrecorded(Ns cost, Ns measured) {
  return append_task(graph, {.kind = TaskKind::kKernel,
                             .cost = cost,
                             .lane = static_cast<std::uint32_t>(graph.lanes.size() - 1),
                             .name = graph.strings.intern("(nodes of a graph that the trace does not hold)"),
                             .measured = measured});
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

// The thread a step lives on: the one its range is on, else the one that works most in it.
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
  std::fill(g.soft.begin(), g.soft.end(), kNone);
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

// Rows of the step's window that can become tasks. Counted before anything is built: a graph takes ten times the room of its rows.
std::size_t rows_of(const TraceIndex& index, const trace::Step& step) {
  std::size_t rows = 0;
  for (std::uint32_t lane = 0; lane < index.cpu.size(); ++lane)
    rows += index.begun_in(lane, step.start, step.end).size();
  const auto begins = [](const GpuWork& w, Ns t) { return w.begin < t; };
  const auto first = std::lower_bound(index.work.begin(), index.work.end(), step.start, begins);
  return rows + static_cast<std::size_t>(std::lower_bound(first, index.work.end(), step.end, begins) - first);
}

Graph build_step(const TraceIndex& index, const StartupIndex& startup, const trace::Steps& steps, std::size_t which,
                 const BuildOptions& options, const trace::Latencies& latencies) {
  const trace::Step& step = steps.steps[which];
  Graph graph;
  StepState s{index, startup, options, latencies, graph, steps, which};
  s.main = main_lane_of(index, step);
  s.begin = step.start;
  s.end = step.thread_end.value_or(step.end);
  s.ends_with_gpu = step.thread_end.has_value();
  s.missing_until = step.waited > 0 ? step.waited_until : INT64_MIN;
  s.periodic = !options.alone && !s.ends_with_gpu && outlives(index, step, s.main);
  if (s.periodic && which + 1 < steps.steps.size()) s.end = std::max(step.end, steps.steps[which + 1].start);
  s.names.assign(index.trace.strings.size(), StringId{});
  const auto by_begin = [](const Call& c, Ns t) { return c.begin < t; };
  s.first_call = static_cast<std::uint32_t>(
      std::lower_bound(index.calls.begin(), index.calls.end(), s.begin, by_begin) - index.calls.begin());
  s.last_call = static_cast<std::uint32_t>(std::lower_bound(index.calls.begin(), index.calls.end(), s.end, by_begin) -
                                           index.calls.begin());

  find_bursts(s);
  tile_cpu_lanes(s);
  take_out_startup(s);
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
  join_library_streams(s);
  set_device_lags(s);
  add_syncs(s);
  if (s.end_wait != kNone) {
    std::vector<std::uint32_t> last(graph.lanes.size(), kNone);
    for (const StepWork& w : s.works) last[graph.lane[w.task]] = graph.lanes[graph.lane[w.task]].end - 1;
    for (const std::uint32_t task : last) {
      if (task != kNone) s.depend(task, s.end_wait, 0, DependencyKind::kSync);
    }
  }
  graph.periodic = s.periodic;
  find_loader_workers(s);
  finish(graph, std::move(s.dependencies));
  graph.step_name = step.name;
  graph.traced = step.duration();
  graph.main_lane = 0;
  graph.notes.waited = step.waited;
  graph.notes.orphans = index.orphans;
  graph.notes.early_kernels = index.early;
  graph.notes.queue_depth_measured = index.queue_depth_measured;
  assign_layers(index, graph, s.begin);
  mark_loader_waits(graph);
  count_recorded(s);
  return graph;
}

}  // namespace

GraphBuilder::GraphBuilder(const trace::Trace& trace, const trace::Steps& steps, const trace::Latencies& latencies)
    : trace_(&trace),
      steps_(&steps),
      latencies_(&latencies),
      index_(std::make_unique<TraceIndex>(trace, steps.steps.empty() ? 0 : steps.steps.front().start)),
      startup_(std::make_unique<StartupIndex>(*index_, steps)),
      paces_(find_paces(*index_, steps)) {}
GraphBuilder::~GraphBuilder() = default;
GraphBuilder::GraphBuilder(GraphBuilder&&) noexcept = default;
GraphBuilder& GraphBuilder::operator=(GraphBuilder&&) noexcept = default;

bool GraphBuilder::cold(std::size_t step) const { return startup_->cold(step); }

Result<Graph> GraphBuilder::build(std::size_t which, const BuildOptions& options) const {
  if (which >= steps_->steps.size()) {
    return fail(ErrorCode::kDeclined, "the trace holds no step", "record at least one step with torch.profiler");
  }
  const trace::Step& step = steps_->steps[which];
  if (index_->far(step.start) || index_->far(step.end)) {
    return fail(ErrorCode::kDeclined, step.name + " is days away from the first step",
                "the trace's clock is broken, or the file holds several recordings");
  }
  // The longest steps of real programs (hundreds of micro-batches) have some hundred thousand tasks.
  constexpr std::size_t kMostRows = 2'000'000;
  if (const std::size_t rows = rows_of(*index_, step); rows > kMostRows) {
    return fail(ErrorCode::kDeclined, fmt::format("{} holds {} events, more than {}", step.name, rows, kMostRows),
                "is it one step? --steps-by NAME names the range that marks a step");
  }
  Graph graph = build_step(*index_, *startup_, *steps_, which, options, *latencies_);
  if (graph.size() <= 1) {
    return fail(ErrorCode::kDeclined, steps_->steps[which].name + " holds no work",
                "no operation, call or kernel is inside the step's range");
  }
  FORETRACE_TRY_VOID(make_sound(graph));
  if (!startup_->cold(which)) graph.period = paces_[which].period;
  graph.ramp_up = paces_[which].ramp_up;
  graph.recorded_steps = spread_of(*steps_, settled());
  return graph;
}

Graph repeat(const Graph& g, std::uint32_t copies) {
  // Lane by lane: all copies of a lane in a row. Task t of a lane becomes lane start * copies + copy * length + offset.
  Graph out = empty_like(g);
  out.copies = g.copies * copies;
  out.lanes = g.lanes;
  const auto place = [&](std::uint32_t t, std::uint32_t copy) {
    const GraphLane& lane = g.lanes[g.lane[t]];
    return lane.begin * copies + copy * (lane.end - lane.begin) + (t - lane.begin);
  };
  for (GraphLane& lane : out.lanes) {
    lane.begin *= copies;
    lane.end *= copies;
  }
  reserve_tasks(out, g.size() * copies);
  std::vector<Dependency> all;
  all.reserve(g.dep_to.size() * copies);
  for (const GraphLane& lane : g.lanes) {
    for (std::uint32_t copy = 0; copy < copies; ++copy) {
      for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
        TaskRow row = row_of(g, t);
        if (row.launch.valid()) row.launch = TaskId{place(row.launch.value, copy)};
        if (row.soft != kNone) {
          SoftDependency soft = g.soft_dependencies[row.soft];
          soft.from = TaskId{place(soft.from.value, copy)};
          row.soft = static_cast<std::uint32_t>(out.soft_dependencies.size());
          out.soft_dependencies.push_back(soft);
        }
        append_task(out, row);
        for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
          if (g.dep_kind[d] == DependencyKind::kShare) continue;  // finish() adds those
          all.push_back({place(t, copy), place(g.dep_to[d], copy), g.dep_lag[d], g.dep_point[d], g.dep_kind[d]});
        }
      }
    }
  }
  for (const CarriedDependency& c : g.carried) {
    Dependency d = c.dependency;
    for (std::uint32_t copy = c.back; copy < copies; ++copy) {
      all.push_back({place(d.from, copy - c.back), place(d.to, copy), d.lag, d.point, d.kind});
    }
    // Copies of copies: the last of these still lets the first of the next ones go.
    if (copies <= c.back) continue;
    d.from = place(c.dependency.from, copies - 1);
    d.to = place(c.dependency.to, c.back - 1);
    out.carried.push_back({d, 1});
  }
  finish(out, std::move(all));
  out.last = TaskId{place(g.last.value, copies - 1)};
  return out;
}

}  // namespace foretrace::graph
