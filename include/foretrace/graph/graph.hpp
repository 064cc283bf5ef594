#pragma once
// Graph: the work of one training step and why each piece of it cannot start yet.
//
// Tasks are on lanes and run there one after another; ids are dense and follow lane order, so a lane is a range of ids
// and "the next task on the lane" is id + 1. All other reasons are dependencies, stored by source (CSR):
//
//   time at which `to` may start  >=  point(from) + lag,   point(from) = start + cost * point / kWhole
//
// Two reasons are implicit because they follow lane order: a task waits for its lane predecessor's end (+ lane_lag), and
// a launch waits while its stream's launch queue is full (GraphLane::queue_depth). One reason is soft: a task that found
// the GPU full waits for the task that made room, but only while that one really holds the device (SoftDependency).
//
// Costs are work: waiting is never part of them. A graph is immutable once built; what-ifs write change lists.

#include <cstdint>
#include <limits>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// Fixed latencies of a GPU and its driver, and those of the reference device (src/trace/latencies.hpp).
struct Latencies;
const Latencies& default_latencies();

}  // namespace foretrace::trace

namespace foretrace::graph {

enum class TaskKind : std::uint8_t {
  kBegin,  ///< the start of the step: the first task of the main lane, no cost
  kCpu,    ///< a stretch of CPU time
  kCall,   ///< a runtime call; `launch` of the GPU tasks it starts points here
  kWait,   ///< no cost: the place in a CPU lane where a wait ends (a synchronisation, a join of threads)
  kKernel,
  kMemcpy,
  kMemset,
  kCollective,  ///< a communication kernel
};
std::string_view to_string(TaskKind kind);
constexpr bool is_gpu(TaskKind k) { return k >= TaskKind::kKernel; }

/// Why a task cannot start yet. kLane and kQueue are implicit and appear in results only.
enum class DependencyKind : std::uint8_t {
  kNone,        ///< starts with the step
  kLane,        ///< the task before it on its lane
  kLaunch,      ///< CPU -> GPU: the call that launched it
  kQueue,       ///< GPU -> CPU: the launch queue was full
  kSync,        ///< GPU -> CPU: a synchronisation waits for work
  kStreamWait,  ///< GPU -> GPU across streams: event record -> stream wait
  kShare,       ///< GPU -> GPU: the device was full
  kGraph,       ///< GPU -> GPU inside a CUDA graph
  kThread,      ///< CPU -> CPU: hand-over to another thread, or joining it
  kBorder,      ///< work from before the step, and independent threads: measured time since the step's begin
  kCollective,  ///< rank -> rank
};
std::string_view to_string(DependencyKind kind);
inline constexpr std::size_t kDependencyKinds = 11;

enum class Phase : std::uint8_t { kForward, kBackward, kOptimizer, kCommunication, kData, kOther };
std::string_view to_string(Phase phase);
inline constexpr std::size_t kPhases = 6;

using foretrace::Origin;

using LayerId = Id<struct LayerTag>;

struct Layer {
  StringId name;           ///< qualified module name, or the operation and its shape for a synthetic layer
  StringId type;           ///< module type; empty when synthetic
  bool synthetic = false;  ///< no annotation names it; derived from operations
};

enum class GraphLaneKind : std::uint8_t { kCpu, kGpu, kNetwork };

/// What the tasks of a lane stand for.
enum class LaneRole : std::uint8_t {
  kWork,
  kPeriodMarks,  ///< the last two tasks mark the period that counts as the step: for work that reaches into the next step
  kLoaderWorkers,  ///< worker processes make batches while the step runs, one task per batch
};

struct GraphLane {
  GraphLaneKind kind = GraphLaneKind::kCpu;
  LaneRole role = LaneRole::kWork;
  std::uint32_t link = 0;  ///< network lanes with the same number share one link's bandwidth; 0: not shared
  StringId name;
  std::uint32_t begin = 0;  ///< tasks [begin, end)
  std::uint32_t end = 0;
  LaneId trace_lane;
  std::int64_t device = -1;
  std::int64_t stream = -1;
  std::uint32_t queue_depth = 0;  ///< launches that fit in this stream's queue; 0: no limit
  Ns queue_lag = 0;               ///< from the start that made room to the call's release
  /// Its tasks run one at a time, but not in the order of their ids: of those that are ready, the one with the highest
  /// Graph::priority goes first; among equals, the one that was ready first.
  bool by_priority = false;
};

/// Fractions of a task as 1/65536: 0 its start, kWhole its end.
inline constexpr std::uint32_t kWhole = 1u << 16;
/// floor(cost * point / kWhole), in parts so that no product leaves 64 bits.
constexpr Ns point_in(Ns cost, std::uint32_t point) { return cost / kWhole * point + cost % kWhole * point / kWhole; }

/// Tasks [begin, end) of one lane.
struct TaskRun {
  std::uint32_t begin, end;
};

struct SoftDependency {
  TaskId from;
  std::uint32_t point = kWhole;
  Ns lag = 0;
  Ns slack = 0;  ///< ignored when `from` starts later than this after the task is otherwise ready
};

/// Events a profiler wrote while a CPU task ran (those that begin in it): each took time that the step itself does not need.
struct Recorded {
  std::uint16_t ops = 0;
  std::uint16_t calls = 0;   ///< of the runtime and the driver
  std::uint16_t layers = 0;  ///< ranges `layer:…`, which only a recording has
  std::uint16_t ranges = 0;  ///< other ranges; the program makes them anyway
  std::uint16_t frames = 0;  ///< Python functions
  friend bool operator==(const Recorded&, const Recorded&) = default;
};

/// A dependency to be added to a graph.
struct Dependency {
  std::uint32_t from, to;
  Ns lag;
  std::uint32_t point;
  DependencyKind kind;
};

/// A dependency on the same work of an earlier step: the GPU runs behind its CPU, and what this step launches waits for what
/// the one before it left there. It holds between the copies of a repeated graph; a lone copy has nothing before it.
struct CarriedDependency {
  Dependency dependency;   ///< both ends are tasks of one step; `from` is the task `back` copies earlier
  std::uint32_t back = 1;  ///< >= 1
};

/// How long the steps of a trace took, as recorded. Steps in which the CPU is still filling the GPU's queue do not count.
struct StepSpread {
  std::size_t steps = 0;  ///< 0: not known
  Ns low = 0, high = 0;   ///< 10th and 90th percentile, interpolated between neighbours
};

/// Work that a program does the first time only, by kind: what it took beyond what the same calls take once warm.
struct Startup {
  Ns launches = 0;    ///< the first launch of each kernel: its code is loaded
  Ns allocation = 0;  ///< memory taken from the driver, which PyTorch's allocator keeps
  Ns loading = 0;     ///< modules, contexts, handles: calls that neither launch, copy nor wait
  Ns tuning = 0;      ///< kernels of one operation tried one after another and timed
  Ns compiling = 0;   ///< torch.compile, Triton, XLA
  Ns operations = 0;  ///< CPU time of operations around such calls
  Ns unsure = 0;      ///< not taken out: long CPU stretches of the rest that may be start-up too
  [[nodiscard]] Ns time() const { return launches + allocation + loading + tuning + compiling + operations; }
};

class Graph {
 public:
  // Columns, one entry per task.
  Column<TaskKind> kind;
  Column<Ns> cost;
  Column<Ns> lane_lag;  ///< between the lane predecessor's end and this task's start
  Column<std::uint32_t> lane;
  Column<StringId> name;
  Column<Phase> phase;
  Column<LayerId> layer;          ///< invalid when none
  Column<TaskId> launch;          ///< of GPU tasks: the call that launched it; invalid when unknown
  Column<EventId> event;          ///< the trace event behind it; invalid for waits and the begin
  Column<EventId> op;             ///< the innermost operation it works for
  Column<Ns> measured;            ///< measured start, relative to the step's begin
  Column<std::uint32_t> soft;     ///< index into soft_dependencies, kNone when none
  Column<Origin> origin;          ///< where its cost comes from
  Column<std::int32_t> priority;  ///< on lanes with `by_priority`; empty when every task has 0
  Column<Recorded> recorded;      ///< empty when nothing was recorded, or its cost was subtracted already

  // Dependencies by source.
  Column<std::uint32_t> dep_begin;  ///< size() + 1 offsets
  Column<std::uint32_t> dep_to;
  Column<Ns> dep_lag;
  Column<std::uint32_t> dep_point;
  Column<DependencyKind> dep_kind;  ///< kShare entries only order; their time is in soft_dependencies
  /// Reasons each task waits for, implicit ones included.
  Column<std::uint32_t> in_degree;
  /// All tasks in topological order, as runs of consecutive tasks of a lane: the order in which the engine visits them.
  /// Incomplete when the graph has a cycle.
  Column<TaskRun> order;

  std::vector<SoftDependency> soft_dependencies;
  std::vector<CarriedDependency> carried;
  std::vector<GraphLane> lanes;
  std::vector<Layer> layers;
  StringTable strings;

  std::string step_name;
  Ns traced = 0;  ///< length of the step in the trace
  Ns period = 0;  ///< from this step's work to the same work of the next one, as measured; 0: no other step shows it
  StepSpread recorded_steps;  ///< all steps of the trace, of which this graph is one
  std::uint32_t main_lane = 0;
  TaskId last;               ///< its end ends the step: the last task of the main lane (or of the GPU without a CPU)
  bool periodic = false;     ///< work outlives the step: its length is the distance between the ends of two copies
  bool ramp_up = false;      ///< the CPU is still filling the GPU's queue: the range is shorter than the period
  std::uint32_t copies = 1;  ///< the same step several times in a row; every lane holds as many equal parts
  /// What the builder could not explain or had to leave out, for `doctor`.
  struct Notes {
    std::uint64_t refuted_waits = 0;     ///< inferred stream waits that the measured times contradict
    std::uint64_t unexplained_lags = 0;  ///< kernels that started > 20 µs late without a cause
    Ns unexplained_time = 0;
    std::uint64_t orphans = 0;               ///< GPU work whose launch is not in the trace
    std::uint64_t early_kernels = 0;         ///< GPU work that starts before its launch call does: moved there
    std::uint64_t dropped_soft = 0;          ///< shares of the device that contradict the program's order
    std::uint64_t dropped_dependencies = 0;  ///< other dependencies that contradict the measured order
    std::uint64_t border_tasks = 0;
    std::uint64_t unrecorded_tasks =
        0;  ///< nodes of CUDA graphs that the trace does not hold, as stretches of GPU time
    std::uint64_t inferred_launches = 0;  ///< GPU work without a recorded launch that the CPU held up, by its times
    std::uint64_t foreign_events = 0;     ///< events of other processes, left out
    Ns waited = 0;                        ///< for GPU work that is not in the file: left out of the step
    bool queue_depth_measured = false;
    Startup startup;   ///< taken out of the step; all 0 in a steady step
    Ns allocator = 0;  ///< in calls that take memory from the driver and give it back, step after step
  } notes;

  [[nodiscard]] std::size_t size() const { return kind.size(); }
  [[nodiscard]] std::size_t dependencies() const { return dep_to.size(); }
  [[nodiscard]] std::string_view task_name(std::size_t t) const { return strings[name[t]]; }
  [[nodiscard]] std::int32_t priority_of(std::size_t t) const { return priority.empty() ? 0 : priority[t]; }
  [[nodiscard]] Recorded recorded_in(std::size_t t) const { return recorded.empty() ? Recorded{} : recorded[t]; }
  [[nodiscard]] bool first_of_lane(std::size_t t) const { return lanes[lane[t]].begin == t; }
};

/// The launch call that waits for task t to start because of the bounded queue of t's stream; invalid when none does.
inline TaskId queued_behind(const Graph& g, std::uint32_t t) {
  const GraphLane& lane = g.lanes[g.lane[t]];
  if (lane.queue_depth == 0 || lane.queue_depth >= lane.end - t) return TaskId{};
  const std::uint32_t later = t + lane.queue_depth;
  const TaskId call = g.launch[later];
  // The tasks of one CUDA-graph launch enter the queue together.
  if (!call.valid() || call == g.launch[later - 1]) return TaskId{};
  // No call waits for what it launches itself, or what the same thread launches behind it: that was not in the queue yet.
  const TaskId first = g.launch[t];
  if (first.valid() && first.value >= call.value && g.lane[first.index()] == g.lane[call.index()]) return TaskId{};
  return call;
}

/// Stores dependencies by source, adds those of soft_dependencies, counts what each task waits for and finds an order. Every
/// function that makes a graph calls it last.
void finish(Graph& graph, std::vector<Dependency> dependencies);

/// Proves that a graph can run: offsets in range, lanes partition the tasks, costs >= 0, and no cycle through any kind of
/// dependency (lane order and launch queues included). Soft dependencies are checked with the rest.
Status verify(const Graph& graph);

/// One line per task and dependency; parse(dump(g)) gives the same graph. For tests and for reading.
std::string dump(const Graph& graph);
Result<Graph> parse(std::string_view text);

// From a trace to the graph of one step.

class TraceIndex;
class StartupIndex;

struct BuildOptions {
  /// Families left out, for ablation: their edges go, waits stay out of the costs. kLane cannot be left out.
  std::set<DependencyKind> without;
  bool device_gaps = true;  ///< false: tasks of a stream follow each other without the device's own gap (ablation)
  /// GPU tasks that started more than 20 µs after everything known to hold them back start after the typical distance
  /// instead: what no rule explains then shows as an error of the replay rather than being kept as measured.
  bool strict = false;
  /// The step as it happened, once: work from before it keeps its measured place even where the step could be repeated.
  bool alone = false;
};

/// How a step follows the one before it.
struct StepPace {
  Ns period = 0;         ///< see Graph::period
  bool behind = false;   ///< its work on the GPU outlives its range: the GPU runs behind the CPU
  bool ramp_up = false;  ///< see Graph::ramp_up
};

/// Builds graphs of a trace's steps; sorts and links the trace once, however many steps are asked for. The trace must
/// outlive it.
class GraphBuilder {
 public:
  /// `latencies` are those of the trace's GPU: they stand in where the trace has too few samples of its own.
  GraphBuilder(const trace::Trace& trace, const trace::Steps& steps,
               const trace::Latencies& latencies = trace::default_latencies());
  ~GraphBuilder();
  GraphBuilder(GraphBuilder&&) noexcept;
  GraphBuilder& operator=(GraphBuilder&&) noexcept;

  /// The graph of step `index`. Declined when the step holds no work.
  Result<Graph> build(std::size_t index, const BuildOptions& options = {}) const;
  [[nodiscard]] const StepPace& pace(std::size_t index) const { return paces_[index]; }
  /// Whether start-up work makes up a notable part of the step. build() takes it out.
  [[nodiscard]] bool cold(std::size_t index) const;
  /// The default step of a verb: the median by length of those that are neither cold nor ramp-up (of those that are not cold,
  /// else of all); of an even count the lower one. There must be a step.
  [[nodiscard]] std::size_t median() const;

 private:
  /// The steps that the median is taken from.
  [[nodiscard]] std::vector<std::size_t> settled() const;

  const trace::Trace* trace_;
  const trace::Steps* steps_;
  const trace::Latencies* latencies_;
  std::unique_ptr<TraceIndex> index_;
  std::unique_ptr<StartupIndex> startup_;
  std::vector<StepPace> paces_;
};

/// `graph` n times in a row: streams, threads and launch queues continue from one copy to the next.
Graph repeat(const Graph& graph, std::uint32_t copies);

}  // namespace foretrace::graph
