#pragma once
// The graph over all ranks of a job, for one step, on one clock.
//
// Every rank's own graph is copied in; a collective's kernel becomes an arrival (no cost) and a tail on the rank's stream,
// tied through one task on a lane of the group's own:
//
//   rank 0   … ─▶ arrive ─┐             ┌─▶ tail ─▶ …        the transfer starts when the last rank has arrived, so
//   group                 ├─▶ transfer ─┤                    waiting is never part of a cost; the tail is what this rank
//   rank 1   … ─▶ arrive ─┘             └─▶ tail ─▶ …        needed longer than the first to be done
//
// A broadcast's root waits for nobody: its kernel stays whole, and the others' tails wait for its start. Send and receive wait
// for each other's start, unless the times show that such a send ends without its receiver. The kernel of a batch of them is
// part of several, and its tail waits for all. A task on a lane of the job's own begins the step and one ends it.

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/ranks/job.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "ranks/collectives.hpp"
#include "ranks/common_steps.hpp"

namespace foretrace::ranks {

/// Where a rank is in the job's graph.
struct RankPart {
  std::uint32_t rank = 0;                      ///< index into Job::ranks
  std::uint32_t first_lane = 0, end_lane = 0;  ///< its lanes
  TaskId begin;                                ///< its cost is how much later than the first rank this one starts
  TaskId last;
  Ns step_start = 0, step_end = 0;  ///< of its step, after the job's begin, on aligned clocks
  Ns trace_start = 0;               ///< of its step, on the trace's own clock
};

/// A collective in the graph.
struct Rendezvous {
  struct Part {
    std::uint32_t rank;  ///< index into Job::ranks
    TaskId arrive;       ///< on its stream; of a root that waits for nobody, its whole kernel
    TaskId tail;         ///< invalid where the kernel stays whole
    Ns start, end;       ///< measured, after the job's begin, on aligned clocks
    Ns wait, transfer;   ///< measured: until the last it waits for arrived, and from then on
    bool counts =
        true;  ///< false: the kernel is part of several messages, and its time is counted with a later partner's
  };
  std::uint32_t collective = 0;  ///< index into Matching::collectives
  TaskId hub;                    ///< the transfer; invalid where only a root binds
  std::vector<Part> parts;
  std::uint32_t last = 0;  ///< the part that arrived last
  /// The last arriver's time, which waits for nobody: what the collective costs.
  [[nodiscard]] Ns transfer() const { return parts[last].transfer; }
};

struct JobGraph {
  graph::Graph graph;
  std::vector<RankPart> ranks;              ///< those that have the step
  std::vector<std::uint32_t> rank_of_lane;  ///< index into Job::ranks; kNone for lanes of the job and its groups
  std::vector<Rendezvous> collectives;
  Ns begin = 0;  ///< of the step on the first rank's clock: the earliest rank's start
};

/// The step of the job: the mean over its ranks of their own steps, which is what each of them measures. Ranks may begin at
/// different moments, so that the time from the first begin to the last end is longer.
Ns traced_step(const JobGraph& job);
Ns simulated_step(const JobGraph& job, const simulate::Timeline& timeline);

struct JobGraphOptions {
  unsigned threads = 0;  ///< 0: as many as the machine has; the result is the same for any number
  /// Called when a rank's part is in the graph, whose dependencies are not there yet: from now on nobody here looks at that rank's trace.
  std::function<void(const graph::Graph& graph, const RankPart& part)> copied = {};
  /// Called before everything is built once more, because a rank cannot take part: all traces are needed again.
  std::function<Status()> again = {};
};

/// Declined when no rank has work in the step. Ranks whose graph cannot be built are left out and named in `notes`.
Result<JobGraph> build_job_graph(const Job& job, const Matching& matching, const Clocks& clocks, const CommonStep& step,
                                 std::vector<std::string>& notes, const JobGraphOptions& options = {});

}  // namespace foretrace::ranks
