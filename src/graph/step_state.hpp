#pragma once
// What the rules share while the graph of one step is built. Each rule reads what the ones before it wrote:
//
//   bursts       other threads working for the main one           rules/threads.cpp
//   tiles        CPU lanes become tasks                           rules/cpu_tiling.cpp
//   streams      GPU work becomes tasks, border work included     rules/streams.cpp
//   waits        event record -> stream wait                      rules/stream_waits.cpp
//   lags         launch, lane and wait edges with their lags      rules/device_lags.cpp
//   syncs        GPU -> CPU                                       rules/syncs.cpp

#include <cstdint>
#include <vector>

#include "foretrace/graph/build.hpp"
#include "graph/trace_index.hpp"

namespace foretrace::graph {

/// A stretch of another thread's work inside one interval of the main thread's time.
struct Burst {
  std::uint32_t lane;  ///< trace lane
  Ns hand, join;       ///< the interval of the main thread: work handed over, result taken
  Ns begin, end;       ///< of the work
};

/// GPU work of this step.
struct StepWork {
  std::uint32_t work;  ///< index into TraceIndex::work
  std::uint32_t task = 0;
  bool border = false;                    ///< launched before the step
  std::uint32_t previous = kNone;         ///< StepWork before it on its stream
  std::vector<std::uint32_t> waits = {};  ///< StepWorks its stream waited for
};

struct StepState {
  const TraceIndex& index;
  const BuildOptions& options;
  Graph& graph;
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
  std::vector<Dependency> dependencies{};

  [[nodiscard]] const trace::Trace& trace() const { return index.trace; }
  [[nodiscard]] bool without(DependencyKind kind) const { return options.without.contains(kind); }
  [[nodiscard]] const GpuWork& gpu(std::uint32_t step_work_id) const { return index.work[works[step_work_id].work]; }
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
  /// Whether a trace lane belongs to the process whose step this is.
  [[nodiscard]] bool ours(std::uint32_t trace_lane) const {
    return main == kNone || trace().lanes[trace_lane].pid == trace().lanes[main].pid;
  }

  std::uint32_t add_task(TaskKind kind, Ns cost, Ns measured, StringId trace_name, std::uint32_t event,
                         std::uint32_t op);
  void depend(std::uint32_t from, std::uint32_t to, Ns lag, DependencyKind kind, std::uint32_t point = kWhole) {
    dependencies.push_back({from, to, lag, point, kind});
  }
  std::uint32_t open_lane(GraphLaneKind kind, std::uint32_t trace_lane);
  void close_lane();
  /// The last task of a lane whose measured start lies before `when`; kNone when there is none.
  [[nodiscard]] std::uint32_t task_before(std::uint32_t graph_lane, Ns when) const;

  std::vector<StringId> names{};  ///< trace string -> graph string
};

void find_bursts(StepState& state);
void tile_cpu_lanes(StepState& state);
void place_gpu_work(StepState& state);
void resolve_stream_waits(StepState& state);
void set_device_lags(StepState& state);
void add_syncs(StepState& state);
/// Phases and layers of all tasks (layers.cpp).
void assign_layers(const TraceIndex& index, Graph& graph, Ns window_begin);

}  // namespace foretrace::graph
