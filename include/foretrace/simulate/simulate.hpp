#pragma once
// The engine: when every task of a graph starts, and why not earlier.
//
//   Timeline t = simulate(graph);          t.step;  t.start[task];  t.cause[task];
//   Timeline u = simulate(graph, {.cost = faster});      // other costs, same structure: nothing is rebuilt
//
// Integer time, no randomness, no dependence on threads or hashing: the same graph gives the same timeline.

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/base/types.hpp"
#include "foretrace/graph/graph.hpp"

namespace foretrace::simulate {

/// Chooses what runs next on lanes that do not simply run in order (priorities, prefetching). Lane order is then
/// ignored on the lanes it manages.
class Schedule {
 public:
  virtual ~Schedule() = default;
  [[nodiscard]] virtual bool manages(std::uint32_t lane) const = 0;
  /// Index into `ready` (tasks whose dependencies are met, in order of becoming ready) of the task to start at `now`.
  [[nodiscard]] virtual std::size_t pick(std::uint32_t lane, std::span<const std::uint32_t> ready, Ns now) const = 0;
};

/// What tasks that run at the same time do to each other. A task carries work: its time alone. While a collective runs, a
/// computation of the same GPU advances at `speed_in_communication` of its speed, and vice versa; tasks of one link
/// share it evenly. Empty columns: no effect.
struct Contention {
  std::vector<float> speed_in_communication;  ///< per task: speed of a computation while a collective runs
  std::vector<float> speed_in_computation;    ///< per task: speed of a collective while a computation runs
  std::vector<std::uint32_t> link;            ///< per task: the link it occupies; kNone when none
  std::uint32_t links = 0;
};
/// The same for `copies` of the graph in a row.
Contention repeat(const Contention& contention, const graph::Graph& graph, std::uint32_t copies);

struct Options {
  std::span<const Ns> cost;                ///< instead of graph.cost; empty: the graph's own
  const Schedule* schedule = nullptr;      ///< null: every lane in its order, or by priority where the graph says so
  const Contention* contention = nullptr;  ///< null: tasks do not slow each other
};

struct Timeline {
  Column<Ns> start;
  Column<Ns> end;
  Column<std::uint32_t> cause;  ///< the task that held this one back last; kNone: the step's begin
  Column<graph::DependencyKind> cause_kind;
  Ns step = 0;                ///< the predicted length of the step
  std::vector<Ns> copy_ends;  ///< of each copy of a repeated graph
};

/// The graph must have passed graph::verify.
Timeline simulate(const graph::Graph& graph, const Options& options = {});
/// The same into an existing timeline, whose memory is reused: for callers that simulate many times.
void simulate(const graph::Graph& graph, const Options& options, Timeline& timeline);

/// Simulates a step in steady state. A graph whose work outlives the step is repeated until the distance between the ends
/// of two copies settles to 0.1 % (8 copies at most); the timeline is then that of the repeated graph, returned too.
struct SteadyState {
  Timeline timeline;
  graph::Graph repeated;  ///< empty unless copies > 1
  std::uint32_t copies = 1;
  bool settled = true;
  [[nodiscard]] const graph::Graph& graph_of(const graph::Graph& original) const {
    return copies > 1 ? repeated : original;
  }
};
SteadyState steady_state(const graph::Graph& graph, const Options& options = {});

/// One task of the critical path and why it could not start earlier.
struct PathStep {
  std::uint32_t task;
  graph::DependencyKind why;
};
/// From the step's begin to its end.
std::vector<PathStep> critical_path(const graph::Graph& graph, const Timeline& timeline);

/// Where the time of a step goes. The first five add up to `step`.
struct Breakdown {
  Ns step = 0;
  Ns cpu_only = 0;  ///< the CPU works, the GPU does not
  Ns gpu_only = 0;  ///< the GPU computes, the CPU does not work
  Ns both = 0;
  Ns exposed_communication = 0;  ///< communication runs and no computation does
  Ns idle = 0;                   ///< nothing runs
  Ns exposed_loading = 0;        ///< of cpu_only: the main thread loads data; of idle: it waits for workers that do
  Ns gpu_busy = 0;               ///< any computation or copy on the GPU
  Ns cpu_busy = 0;
  Ns communication = 0;
  /// Time the GPU computes nothing, by what the next GPU task waited for.
  Ns gpu_idle_by_cause[graph::kDependencyKinds] = {};
  /// The critical path's time by where it runs.
  Ns path_cpu = 0, path_gpu = 0, path_communication = 0, path_waits = 0;
};
Breakdown breakdown(const graph::Graph& graph, const Timeline& timeline);

/// How long the step would be if one resource cost nothing: a lower bound for any change to that resource alone.
struct LowerBounds {
  Ns no_gpu = 0, no_network = 0, no_cpu = 0;
};
LowerBounds lower_bounds(const graph::Graph& graph);

/// What limits a step.
enum class BoundBy : std::uint8_t {
  kNothing,        ///< the step has no length
  kCpu,            ///< more than half of a saving in CPU time reaches the step; the same for the next three
  kGpu,            ///< kernels and copies
  kCommunication,  ///< collectives; their transfer only, where it is known
  kLoading,        ///< data loading on the main thread
  kOtherRanks,     ///< waiting for other ranks inside collectives
  kMixed,          ///< no single one of them
  kWaits,          ///< not even all of them together: delays that nothing in the trace explains
};
/// "cpu", "gpu", "communication", "loading", "other_ranks", "mixed", "waits", "nothing".
std::string_view to_string(BoundBy bound);

/// What would shorten a step, from simulations in which one resource takes 10 % less time. For a step that is not repeated, no
/// share exceeds the resource's share of the critical path.
///
///   Bottleneck b = bottleneck(graph);
///   b.sentence();   // "CPU-bound: 10 % less CPU time shortens the step by 9.1 %, 10 % less GPU time by 0.2 %; the GPU is busy 38 % …"
struct Bottleneck {
  static constexpr double kSaving =
      0.1;  ///< small enough for a step to keep its shape, large enough not to be rounding
  BoundBy by = BoundBy::kNothing;
  Ns step = 0;
  /// What part of a saving in a resource reaches the step, 0 to 1.
  double cpu = 0, gpu = 0, communication = 0, loading = 0, other_ranks = 0;
  double all = 0;       ///< in all of them at once; the rest are waits
  double gpu_busy = 0;  ///< share of the step in which the GPU computes or copies
  bool on_gpu = false;  ///< the step has GPU work or communication
  [[nodiscard]] std::string sentence() const;
};
/// The graph of one step (not repeated), which must have passed graph::verify. `transfer`: by task, the part of a collective
/// that moves data; the rest of it waits for other ranks. Empty: all of it moves data.
Bottleneck bottleneck(const graph::Graph& graph, const Options& options = {}, std::span<const Ns> transfer = {});

// How far the length of a step follows its costs. A replay keeps delays that no rule explains as fixed lags, so it matches the
// trace even where such a lag stands for a whole queue: exact, but no change can shorten it. Three simulations show this:
//
//   frozen     all costs are zero: what is left is lags. A few percent are gaps and latencies, more are waits
//              without an explanation, which no change will shorten
//   cpu_free   the CPU costs nothing: the step must shrink to the GPU's own critical path
//   gpu_free   the GPU and the network cost nothing: the step must shrink to the CPU's work
//
// All of them are the distance between the ends of the last two of several copies in a row.

struct Limits {
  Ns step = 0;  ///< as replayed
  Ns frozen = 0;
  Ns cpu_free = 0;
  /// GPU tasks and the gaps between them (20 us at most each), with nothing from the CPU but the order it gives and the
  /// hand-overs between its threads, which belong to neither.
  Ns gpu_path = 0;
  Ns gpu_free = 0;
  /// CPU tasks and the hand-overs between threads. From the GPU only the gaps (20 us at most each): a CUDA graph of a thousand
  /// nodes takes 0.7 ms when none of them costs anything, and one call launches it.
  Ns cpu_work = 0;

  [[nodiscard]] double frozen_pct() const { return share(frozen); }
  /// What the limit exceeds the path by, in percent of the path; of the step where the path is less than a fifth of it: a
  /// resource that hardly takes part is known no better than that.
  [[nodiscard]] double cpu_free_off_pct() const { return off(cpu_free, gpu_path); }
  [[nodiscard]] double gpu_free_off_pct() const { return off(gpu_free, cpu_work); }

 private:
  [[nodiscard]] double share(Ns part) const {
    return step > 0 ? 100.0 * static_cast<double>(part) / static_cast<double>(step) : 0;
  }
  [[nodiscard]] double off(Ns limit, Ns path) const {
    const Ns whole = path > step / 5 ? path : step / 5;
    return whole > 0 ? 100.0 * static_cast<double>(limit - path) / static_cast<double>(whole) : 0;
  }
};

/// Only the first of them: the step with every cost at zero.
Ns frozen_time(const graph::Graph& graph);

/// A lag of more than 50 us that no change shortens.
struct LongLag {
  std::uint32_t from, to;  ///< tasks; `from` is the lane predecessor where the kind is kLane
  graph::DependencyKind kind;
  Ns lag;
};
/// All of them, longest first. Hand-overs between threads and lags of independent threads have a known cause and are left out.
std::vector<LongLag> long_lags(const graph::Graph& graph);

/// Of a graph whose unchanged step is `step`. The graph must have passed graph::verify.
Limits limits(const graph::Graph& graph, Ns step);

}  // namespace foretrace::simulate
