#pragma once
// What the rules share while the graph of one step is built. Each rule reads what the ones before it wrote:
//
//   bursts       other threads working for the main one           rules/threads.cpp
//   tiles        CPU lanes become tasks                           rules/cpu_tiling.cpp
//   loaders      batches that worker processes make              rules/loaders.cpp
//   startup      start-up work of a cold step is taken out        rules/startup.cpp
//   recorded     what the profiler wrote in each of them          rules/recorded.cpp
//   streams      GPU work becomes tasks, border work included     rules/streams.cpp, rules/unrecorded.cpp
//   waits        event record -> stream wait                      rules/stream_waits.cpp
//   libraries    the same without any record                      rules/library_streams.cpp
//   lags         launch, lane and wait edges with their lags      rules/device_lags.cpp
//   syncs        GPU -> CPU                                       rules/syncs.cpp
//
// What this step waits for may have been launched in an earlier one: rules/carried.cpp.

#include <cstdint>
#include <set>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "graph/startup.hpp"
#include "graph/trace_index.hpp"
#include "trace/latencies.hpp"

namespace foretrace::graph {

/// A stretch of another thread's work inside one interval of the main thread's time.
struct Burst {
  std::uint32_t lane;  ///< trace lane
  Ns hand, join;       ///< the interval of the main thread: work handed over, result taken
  Ns begin, end;       ///< of the work
};

/// GPU work that something waited for.
struct Source {
  std::uint32_t id = kNone;  ///< a StepWork; of an earlier step: an index into TraceIndex::work
  bool earlier = false;      ///< launched in a step before this one, and left running
  [[nodiscard]] bool valid() const { return id != kNone; }
  friend bool operator==(const Source&, const Source&) = default;
};

/// GPU work of this step.
struct StepWork {
  std::uint32_t work;  ///< index into TraceIndex::work; kNone: StepState::unrecorded[extra]
  std::uint32_t task = 0;
  bool border = false;             ///< launched before the step
  std::uint32_t previous = kNone;  ///< StepWork before it on its stream
  std::vector<Source> waits = {};  ///< what its stream waited for
  std::uint32_t extra = kNone;
  Ns free = INT64_MIN;  ///< when the last thing that held it was done; INT64_MIN: only its launch held it
};

struct StepState {
  const TraceIndex& index;
  const StartupIndex& startup;
  const BuildOptions& options;
  const trace::Latencies& latencies;  ///< of the trace's GPU
  Graph& graph;
  const trace::Steps& steps;
  std::size_t which = 0;  ///< index into steps
  Ns begin = 0, end = 0;  ///< the window of time
  bool periodic = false;
  bool ends_with_gpu = false;                   ///< the step is alone in its file and is over when its GPU work is
  std::uint32_t end_wait = kNone;               ///< the task that waits for that
  Ns missing_until = INT64_MIN;                 ///< until then the GPU did work that is not in the file
  std::uint32_t main = kNone;                   ///< trace lane of the main thread; kNone without CPU events
  std::uint32_t first_call = 0, last_call = 0;  ///< calls [first, last) begin in the window

  std::vector<Burst> bursts{};
  std::vector<std::uint32_t> call_task{};  ///< per call of the window: its task, kNone when left out
  std::vector<std::uint32_t> wait_task{};  ///< per call of the window: the wait behind it, kNone when none
  std::vector<StepWork> works{};           ///< by begin
  std::vector<std::uint32_t>
      step_work{};  ///< per TraceIndex::work of the window, offset first_work; kNone when foreign
  std::uint32_t first_work = 0;
  std::vector<GpuWork> unrecorded{};
  /// Of a step that is repeated: work (TraceIndex::work) launched before it that still ran in it, by begin.
  std::vector<std::uint32_t> earlier{};
  std::vector<Dependency> dependencies{};
  std::set<std::uint32_t> waited_for_batch{};  ///< ranges in which a thread waits for a batch that others make

  [[nodiscard]] const trace::Trace& trace() const { return index.trace; }
  [[nodiscard]] bool without(DependencyKind kind) const { return options.without.contains(kind); }
  [[nodiscard]] const GpuWork& gpu(std::uint32_t step_work_id) const {
    const StepWork& w = works[step_work_id];
    return w.work == kNone ? unrecorded[w.extra] : index.work[w.work];
  }
  [[nodiscard]] const GpuWork& gpu(Source source) const {
    return source.earlier ? index.work[source.id] : gpu(source.id);
  }
  [[nodiscard]] std::int64_t device_of(const GpuWork& w) const { return trace().lanes[w.lane].pid_number; }
  [[nodiscard]] std::uint32_t task_of_call(std::uint32_t call) const {
    return call >= first_call && call < last_call ? call_task[call - first_call] : kNone;
  }
  [[nodiscard]] std::uint32_t step_work_of(std::uint32_t work) const {
    return work >= first_work && work - first_work < step_work.size() ? step_work[work - first_work] : kNone;
  }
  /// Whether what held this work back is not in the file: its delay is then no latency of its own.
  [[nodiscard]] bool held_by_missing_work(const GpuWork& w) const {
    return w.call != kNone && index.calls[w.call].begin < missing_until && w.begin >= missing_until;
  }
  /// Whether start-up work of a cold step held the GPU back in this time: loading code stops what is queued.
  [[nodiscard]] bool held_by_startup(Ns from, Ns to) const { return startup.cold(which) && startup.overlaps(from, to); }
  /// Whether a trace lane belongs to the process whose step this is.
  [[nodiscard]] bool ours(std::uint32_t trace_lane) const {
    return main == kNone || trace().lanes[trace_lane].pid == trace().lanes[main].pid;
  }

  std::uint32_t add_task(TaskKind kind, Ns cost, Ns measured, StringId trace_name, std::uint32_t event,
                         std::uint32_t op);
  std::uint32_t add_unrecorded(Ns cost, Ns measured);
  void depend(std::uint32_t from, std::uint32_t to, Ns lag, DependencyKind kind, std::uint32_t point = kWhole) {
    dependencies.push_back({from, to, lag, point, kind});
  }
  /// The same for work of this step or of an earlier one; false when the work of an earlier step has no like in this one.
  bool depend(Source from, std::uint32_t to, Ns lag, DependencyKind kind, std::uint32_t point = kWhole);
  std::uint32_t open_lane(GraphLaneKind kind, std::uint32_t trace_lane);
  void close_lane();
  /// The last task of a lane whose measured start is before `when`; kNone when there is none.
  [[nodiscard]] std::uint32_t task_before(std::uint32_t graph_lane, Ns when) const;

  std::vector<StringId> names{};  ///< trace string -> graph string
};

/// The task of this step that does what a piece of work of an earlier step did there (rules/carried.cpp).
struct Counterpart {
  std::uint32_t task = kNone;
  std::uint32_t back = 1;  ///< steps between them
};
Counterpart counterpart(const StepState& state, std::uint32_t work);

void find_bursts(StepState& state);
void tile_cpu_lanes(StepState& state);
void find_loader_workers(StepState& state);
/// The waits it found belong to the loading of data; after assign_layers.
void mark_loader_waits(Graph& graph);
void take_out_startup(StepState& state);
void count_recorded(StepState& state);
void find_unrecorded(StepState& state);  // part of the next
void place_gpu_work(StepState& state);
void resolve_stream_waits(StepState& state);
void join_library_streams(StepState& state);
void set_device_lags(StepState& state);
void add_syncs(StepState& state);
/// Phases and layers of all tasks (layers.cpp).
void assign_layers(const TraceIndex& index, Graph& graph, Ns window_begin);

}  // namespace foretrace::graph
