#pragma once
// Incremental simulation: the effect of a few changed costs or lags on a known timeline.
//
//   Incremental now = *Incremental::make(graph);                   // one full simulation
//   Ns step = now.what_if({{Change::kCost, kernel, 12'000}});      // the step after the change; the base stays
//   now.start(task);  now.end(task);                               // of the changed step, until the next what_if
//   now.accept();                                                  // the changed step becomes the base
//
// The answer equals that of simulate() to the nanosecond. It is found faster because most tasks move by the same amount as
// the task in front of them. Tasks are put into a topological order close to the order of their times, and that order
// is cut into chunks. The walk begins at the first chunk with a change. A chunk in which every task
// moves with its lane is recognised from a summary (how much room each lane has towards each other lane, and which lanes it
// follows) without looking at its tasks; the others are simulated task by task. The walk ends where all lanes have moved by
// one constant and no later task depends on anything before that.
//
// Shifts are kept as pieces: "from task id on, this lane is d later", so that what moved by a constant costs nothing.
// Lanes run in their order: a graph with lanes by priority is refused, since there a later end can let another task go first
// and nothing moves by a constant; simulate() answers for those.

#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"

namespace foretrace::simulate {

/// One changed figure of a graph.
struct Change {
  enum What : std::uint8_t {
    kCost,           ///< of a task; >= 0
    kLaneLag,        ///< in front of a task
    kDependencyLag,  ///< index into graph.dep_lag; not of a soft dependency's entry
  };
  What what = kCost;
  std::uint32_t index = 0;
  Ns value = 0;
};

class Incremental {
 public:
  /// The graph must have passed graph::verify and outlive this object. `cost`: instead of the graph's own. Declined when a
  /// lane goes by priority.
  static Result<Incremental> make(const graph::Graph& graph, std::span<const Ns> cost = {});

  /// Of the base.
  [[nodiscard]] Ns step() const { return base_step_; }
  /// The step with these changes to the base. Of two changes of one figure the later one counts.
  Ns what_if(std::span<const Change> changes);
  Ns what_if(std::initializer_list<Change> changes) { return what_if(std::span(changes.begin(), changes.size())); }
  /// Makes the last what_if the base.
  void accept();

  /// Of the last what_if (of the base when there was none since the last accept).
  [[nodiscard]] Ns start(std::uint32_t task) const { return start_[task] + shift(task); }
  [[nodiscard]] Ns end(std::uint32_t task) const { return start(task) + cost_of(task); }
  [[nodiscard]] Ns cost_of(std::uint32_t task) const { return cost_[task]; }
  /// When a task could start if it did not have to wait for the task before it on its lane.
  [[nodiscard]] Ns ready_without_lane(std::uint32_t task) const;
  /// A task that holds this one back exactly; kNone: the step's begin. Of several, the lane's comes last.
  [[nodiscard]] std::uint32_t cause(std::uint32_t task) const;

  /// What the last what_if took.
  struct Effort {
    std::size_t simulated = 0;  ///< tasks looked at one by one
    std::size_t skipped = 0;    ///< tasks known to move with their lane
    std::size_t untouched = 0;  ///< before the first change, and behind the place where the walk ended
  };
  [[nodiscard]] const Effort& effort() const { return effort_; }

 private:
  Incremental(const graph::Graph& graph, std::span<const Ns> cost);

  /// From this task on its lane has moved by `by`.
  struct Piece {
    std::uint32_t from;
    Ns by;
  };
  /// A reason of a task, by target.
  struct Reason {
    std::uint32_t from;
    std::uint32_t dependency;  ///< kQueue: none, the lag is its lane's
    std::uint32_t point;
  };
  /// What all reasons that lead from one lane to another within a chunk have in common.
  struct Room {
    std::uint32_t source = 0, target = 0;  ///< lanes; source == lanes: the begin of time
    std::uint32_t earliest = 0;            ///< the first task on `source` that any of them starts from
    std::uint32_t followed = 0;            ///< the first one that the target follows exactly
    Ns room = 0;                           ///< the least time by which they hold nothing back
  };
  struct Limit {  ///< the same for everything behind a chunk, by source lane
    std::uint32_t earliest, followed;
    Ns room;
  };

  void find_order();
  void find_reasons();
  void summarise();
  [[nodiscard]] Ns shift(std::uint32_t task) const;
  [[nodiscard]] Ns most_shift(std::uint32_t lane, std::uint32_t from) const;
  [[nodiscard]] bool moves_with_lanes(std::size_t chunk) const;
  [[nodiscard]] bool settled(std::size_t chunk) const;
  void simulate_chunk(std::size_t chunk);
  [[nodiscard]] Ns find_start(std::uint32_t task) const;
  [[nodiscard]] Ns find_step() const;
  [[nodiscard]] Ns reason_time(const Reason& reason, Ns from_start, Ns from_cost) const;
  void set_shift(std::uint32_t task, Ns by);
  void mark(std::uint32_t task);
  void undo_changes();

  const graph::Graph& g_;
  // The base, and the changes of the last what_if written over it.
  std::vector<Ns> cost_, lane_lag_, dep_lag_;
  std::vector<Change> old_;  ///< figures as they were before the last what_if
  std::vector<Ns> start_;
  Ns base_step_ = 0;

  std::vector<std::uint32_t> order_, chunk_of_;
  std::vector<std::uint32_t> reason_begin_;
  std::vector<Reason> reasons_;
  std::vector<std::uint32_t> room_begin_;  ///< by chunk
  std::vector<Room> rooms_;
  std::vector<Limit> limits_;             ///< by chunk and source lane: of all chunks behind it
  std::vector<std::uint32_t> lane_last_;  ///< the last chunk with a task of the lane
  std::vector<Ns> block_end_;             ///< latest end in each block of neighbouring ids, for repeated graphs

  std::vector<std::vector<Piece>> pieces_;  ///< by lane; the last one holds for everything behind it
  std::vector<std::uint32_t> touched_;      ///< lanes with pieces after the first
  std::vector<std::uint32_t> marked_;       ///< by chunk: must be simulated, in this round
  std::uint32_t round_ = 0;
  std::size_t last_marked_ = 0, first_marked_ = 0;
  Effort effort_;
};

}  // namespace foretrace::simulate
