#pragma once
// The five primitives. A Draft is a list of changes to a graph: costs overridden, tasks removed, tasks and dependencies
// added, lanes that go by priority. Nothing is rebuilt until commit(), and then once.
//
//   Draft d(graph);
//   auto bn = d.select({.kind = TaskKind::kKernel, .op = "*batch_norm*"});
//   d.scale(bn, 0.5);
//   d.remove(d.select({.op = "aten::relu*"}), Draft::kWithLaunch);
//   Graph changed = d.commit();

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::whatif {

class OpChains;  // src/whatif/model/op_chains.hpp

using graph::DependencyKind;
using graph::Graph;
using graph::GraphLane;
using graph::Phase;
using graph::TaskKind;

/// A point on a stream and on the thread that feeds it; new work is inserted behind it.
struct Place {
  std::uint32_t cpu = kNone, gpu = kNone;
  [[nodiscard]] bool known() const { return cpu != kNone && gpu != kNone; }
};
/// In front of a GPU task and its launch, or behind both; unknown where the trace does not show the launch.
Place place_before(const Graph& graph, std::uint32_t task);
Place place_behind(const Graph& graph, std::uint32_t task);

/// Tasks, ascending. Ids below graph.size() are the graph's; higher ones were inserted into this draft.
using Selection = std::vector<std::uint32_t>;

/// All given conditions must hold. Texts are globs (* and ?), case-sensitive.
struct Query {
  std::optional<TaskKind> kind = {};
  bool gpu = false;  ///< any GPU task
  std::optional<Phase> phase = {};
  std::string name = {};   ///< task (kernel) name
  std::string op = {};     ///< the operation the task works for, or any around that
  std::string after = {};  ///< the task before it on its lane works for such an operation
  std::string shape = {};  ///< shapes of the innermost operation's inputs, blanks as in the file: "*[64,*3,*224,*224]*"
  std::string layer = {};
  std::optional<std::uint32_t> lane = {};
  std::function<bool(std::uint32_t)> where = {};
};

/// "aten::*norm*" against "aten::batch_norm".
bool glob_match(std::string_view pattern, std::string_view text);

/// A GPU task to insert, with the CPU work that launches it.
struct NewKernel {
  std::string name = {};
  Ns cost = 0;
  Phase phase = Phase::kOther;
  graph::LayerId layer = {};
  TaskKind kind = TaskKind::kKernel;
  Place after = {};  ///< the task goes behind one of its stream, its launch behind one of its thread
  Ns cpu_cost = 0;   ///< of the launch with the operation around it; unused with `launch_of`
  std::optional<std::uint32_t> launch_of = {};  ///< share this call (a CUDA graph) instead of a launch of its own
  std::uint32_t work = kNone;                   ///< a row of the model's works
  graph::Origin origin = graph::Origin::kModelled;
  EventId event = {};  ///< of a collective that runs again: the recorded one, by which other ranks know it
  EventId op = {};     ///< the operation it works for; none: that of the recorded task it follows
  std::optional<std::uint32_t> lane = {};  ///< without a task to follow there: the end of a lane that the draft added
};

class Draft {
 public:
  enum Removal : std::uint8_t { kTaskOnly, kWithLaunch };

  /// `trace` answers questions about operations and shapes: without it, nothing matches those. `chains` is shared by
  /// drafts over one trace, so that it is sorted once; made when needed where there is none. `latencies`: of the step's GPU.
  explicit Draft(const Graph& graph, const trace::Trace* trace = nullptr,
                 std::shared_ptr<const OpChains> chains = nullptr,
                 const trace::Latencies& latencies = trace::default_latencies());

  [[nodiscard]] Selection select(const Query& query) const;
  void scale(const Selection& tasks, double factor);
  void set(const Selection& tasks, Ns cost);
  void set(std::uint32_t task, Ns cost, graph::Origin origin = graph::Origin::kModelled);
  /// Removes tasks. The tasks around each on its lane become neighbours, and what waited for it waits for what it waited for;
  /// a removed wait no longer waits. kWithLaunch: the call and the CPU time of the operation that launched a GPU task are removed
  /// too, as far as they launch nothing else.
  void remove(const Selection& tasks, Removal how = kTaskOnly);
  /// Returns the place behind the new task: its id and that of its launch. Behind a task of a CUDA graph the new one becomes
  /// part of that graph: it has no launch, and the place on the CPU is behind the graph's.
  Place insert(const NewKernel& kernel);
  /// CPU work behind a task of its lane.
  std::uint32_t insert_cpu(std::uint32_t after, std::string name, Ns cost, Phase phase);
  /// A zero-cost place behind a CPU task where it waits for others: add dependencies of kind kSync to it.
  std::uint32_t insert_wait(std::uint32_t after, std::string name);
  /// Such a place where the CPU reads a number back that the GPU has just computed.
  std::uint32_t insert_read_back(const Place& at, std::string name);
  /// A new lane (a copy stream, a network channel) and a task at its end.
  std::uint32_t add_lane(graph::GraphLaneKind kind, std::string name, std::int64_t device = -1);
  /// A lane that this draft added, to set its role or its link.
  graph::GraphLane& added_lane(std::uint32_t lane);
  std::uint32_t append(std::uint32_t lane, TaskKind kind, std::string name, Ns cost, Phase phase, graph::LayerId layer);
  /// A dependency that contradicts the order of a lane is kept, and graph::verify rejects the changed graph.
  void depend(std::uint32_t from, std::uint32_t to, Ns lag, DependencyKind kind, std::uint32_t point = graph::kWhole);
  /// The lanes of these tasks no longer run in order: of the tasks that could start, the highest priority goes first.
  /// Others have 0. Both are stored in the graph, so later what-ifs and every simulation follow them.
  void schedule(const Selection& tasks, std::int32_t priority);
  void set_lane_lag(std::uint32_t task, Ns lag);
  /// What the task computes becomes another row of the model's works.
  void set_work(std::uint32_t task, std::uint32_t work);
  /// Another call launches this GPU task (a CUDA graph); its dependency on the old call is dropped.
  void set_launch(std::uint32_t task, std::uint32_t call, Ns lag);
  /// The step no longer ends with everything done: its length becomes the distance between two steps in a row.
  void make_periodic() {
    periodic_ = structural_ = true;
    ++changed_;
  }
  /// Counts a change that is not a change of tasks: of the model's memory.
  void note_change() { ++changed_; }
  /// Copies tasks with the dependencies, shares of the device and launches among them. On each lane the copies follow the lane's last task of
  /// `behind` (or keep their order behind their originals' lane end when it has none). Returns draft ids, in order of
  /// `tasks`.
  std::vector<std::uint32_t> clone(const Selection& tasks, const std::vector<std::uint32_t>& behind, double factor = 1);

  [[nodiscard]] const Graph& base() const { return base_; }
  [[nodiscard]] Ns cost(std::uint32_t task) const;
  /// Of every task of the graph, as simulate::Options takes them: a change of costs alone needs no commit.
  [[nodiscard]] std::span<const Ns> costs() const {
    return cost_.empty() ? std::span(base_.cost.data(), base_.size()) : std::span(cost_.data(), cost_.size());
  }
  [[nodiscard]] bool removed(std::uint32_t task) const { return task < removed_.size() && removed_[task] != 0; }
  [[nodiscard]] std::size_t changed() const { return changed_; }

  /// The changed graph. Cost-only drafts copy columns; structural ones rebuild once. On a stream, tasks that were inserted or
  /// are launched by other calls are placed by those calls: a stream runs its work in the order of its launches.
  [[nodiscard]] Graph commit() const;
  /// The same; `works`, which describes the tasks of the graph, describes those of the changed one then.
  [[nodiscard]] Graph commit(work::Works& works) const;
  /// After commit(): work was added to a stream on which the trace shows work in another order than that of its launches.
  /// The changed graph may then contain a cycle.
  [[nodiscard]] bool contradicted() const { return contradicted_; }

 private:
  struct NewTask {
    TaskKind kind = TaskKind::kCpu;
    Ns cost = 0;
    std::string name = {};
    Phase phase = Phase::kOther;
    graph::LayerId layer = {};
    std::uint32_t launch = kNone;  // id in this draft
    std::uint32_t after = kNone;   // id on the same lane, or none and `lane`
    std::uint32_t lane = 0;        // new lanes: graph.lanes.size() + i
    std::uint32_t work = kNone;    // a row of works
    graph::Origin origin = graph::Origin::kModelled;
    Ns lane_lag = 0;
    std::uint32_t like = kNone;  // the task it is a copy of, whose row it shares
    EventId event = {};          // of a collective that runs again
    EventId op = {};             // none: of what it follows
  };

  std::uint32_t add(NewTask task);
  void take_out(std::uint32_t task);
  void find_launches();
  [[nodiscard]] std::uint32_t lane_of(std::uint32_t task) const;
  /// The call that launched the CUDA graph a task belongs to, or kNone.
  [[nodiscard]] std::uint32_t graph_launch_of(std::uint32_t task) const;
  [[nodiscard]] const OpChains& chains() const;
  [[nodiscard]] Graph commit_with(work::Works* works) const;
  class Commit;  // draft_commit.cpp
  class LaunchOrder;

  const Graph& base_;
  const trace::Trace* trace_;
  const trace::Latencies& latencies_;
  mutable std::shared_ptr<const OpChains> chains_;
  Column<Ns> cost_;
  std::vector<graph::Origin> origin_;
  std::vector<std::uint8_t> removed_;
  // For removals with launches, from the first one on: what is left of what each call launched, and the CPU's tasks by the
  // operation they work for.
  std::vector<std::uint32_t> left_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> by_op_;
  std::vector<NewTask> added_;
  std::vector<graph::Dependency> dependencies_;
  std::vector<graph::GraphLane> new_lanes_;
  std::vector<std::string> new_lane_names_;
  std::vector<std::pair<std::uint32_t, Ns>> lane_lags_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> works_;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> launches_;  // task, new call
  std::vector<std::pair<std::uint32_t, std::int32_t>> priorities_;
  std::vector<std::pair<std::uint32_t, graph::SoftDependency>> shares_;  // of inserted tasks; both ends are draft ids
  bool periodic_ = false;
  mutable bool contradicted_ = false;  // commit() found out
  std::size_t changed_ = 0;
  bool structural_ = false;
};

}  // namespace foretrace::whatif
