#pragma once
// Pipeline-parallel jobs from operation traces: every operation of every worker (a data-parallel rank and a pipeline stage)
// over many steps, at the level of micro-batches rather than kernels.
//
//   FORETRACE_TRY(PipelineJob job, read_pipeline(trace));
//   FORETRACE_TRY(PipelineAnswers a, answer(job));        a.steps[0].replayed;  a.slowdown;  a.by_stage;
//
// What binds an operation:
//   a worker's computations run one after another; its forward sends, forward receives, backward sends and backward receives
//   do so too, each kind for itself;
//   a receive comes before the computation of its micro-batch and after the computation before that; a send after its own;
//   parameters are gathered before the first forward of their chunk; behind the last computation come garbage collection,
//   layer-norm and embedding gradients, gradient reduction, clipping, the optimizer;
//   send and receive meet (chunk and micro-batch say who), data-parallel collectives meet over the ranks of a stage, embedding
//   gradients between the first and the last stage, clipping over all workers.
// Communication costs its time since the last participant came; waiting comes out of the simulation.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::ranks {

enum class PipelineOpType : std::uint8_t {
  kForward,
  kBackward,
  kForwardSend,
  kForwardRecv,
  kBackwardSend,
  kBackwardRecv,
  kGatherParameters,
  kReduceGradients,
  kLayerNormGradients,
  kEmbeddingGradients,
  kSeparateGradients,
  kClip,
  kOptimizer,
  kGarbage,
  kUnknown,  ///< counted and left out
};
inline constexpr std::size_t kPipelineOpTypes = 14;
/// As the trace spells it: "forward-compute".
std::string_view to_string(PipelineOpType type);
/// For groups of operations: sends and receives of one direction are one, "forward-pp-comm".
std::string_view group_name(PipelineOpType type);
constexpr bool is_transfer(PipelineOpType t) { return t >= PipelineOpType::kForwardSend && t <= PipelineOpType::kClip; }

struct PipelineOp {
  std::uint32_t dp = 0, stage = 0;
  std::int64_t rank = -1;
  std::int64_t step = 0;
  PipelineOpType type = PipelineOpType::kUnknown;
  Ns start = 0, end = 0;  ///< since the begin of the step
  std::int64_t sequence = -1, chunk = -1, batch = -1, global_chunk = -1;
};

struct PipelineJob {
  std::uint32_t dp_size = 0, stages = 0;
  std::vector<PipelineOp> ops;  ///< by step, worker, time
  struct Step {
    std::int64_t number = 0;
    std::uint32_t first = 0, end = 0;  ///< ops
    Ns traced = 0;
  };
  std::vector<Step> steps;
  std::vector<std::string> notes;
};

bool is_pipeline(const trace::Trace& trace);
/// Declined when the trace holds no computation.
Result<PipelineJob> read_pipeline(const trace::Trace& trace);

/// The graph of one step, and which task carries an operation's cost.
struct PipelineGraph {
  graph::Graph graph;
  std::vector<std::uint32_t> task;    ///< per op of the step: its computation, or its transfer
  std::vector<std::uint32_t> arrive;  ///< per op: where it begins; the same task for computations
  std::vector<Ns> wait;               ///< per op: measured, until the last participant came
  std::vector<Ns> cost;               ///< per op: measured, without the wait
  std::uint64_t alone = 0;            ///< transfers whose partner the trace does not show
};
Result<PipelineGraph> build_pipeline(const PipelineJob& job, const PipelineJob::Step& step);

struct PipelineAnswers {
  struct Step {
    std::int64_t number = 0;
    Ns traced = 0;    ///< from the earliest start to the latest end
    Ns replayed = 0;  ///< simulated with measured costs, no delay that no operation explains
    Ns ideal = 0;     ///< simulated with the typical cost of each kind of operation
  };
  std::vector<Step> steps;
  double traced_ms = 0, replayed_ms = 0, ideal_ms = 0;  ///< means over steps
  double launch_slowdown = 1;                           ///< traced to replayed
  double slowdown = 1;                                  ///< replayed to ideal: what stragglers cost
  struct Share {
    std::string name;
    std::int64_t number = -1;  ///< of a rank or stage
    double slowdown = 1;       ///< an ideal job in which only this group is as measured
    std::vector<double> per_step;
  };
  std::vector<Share> by_dp, by_stage, by_type;  ///< worst first
  struct Worker {
    std::int64_t rank = -1;
    std::uint32_t dp = 0, stage = 0;
    Ns step = 0;  ///< mean, from its first start to its last end
    Ns wait = 0;  ///< mean per step, in transfers
    Ns transfer = 0;
    double slowdown = 1;  ///< the smaller one of its rank's and its stage's
  };
  std::vector<Worker> workers;
  std::vector<double> slow_workers_per_step, last_stage_per_step;
  double slow_workers = 0;  ///< share of the slowdown that goes when the slowest 3 % of the workers are typical ("M_W")
  double last_stage = 0;    ///< the same for the last stage ("M_S")
  std::vector<std::int64_t> slowest;  ///< indices into workers of those 3 %
  std::uint64_t tasks = 0;
  std::vector<std::string> notes;
};
Result<PipelineAnswers> answer(const PipelineJob& job);

/// The same answers for one step alone (typical costs are still those of all steps); index into `steps`.
PipelineAnswers of_step(const PipelineAnswers& answers, std::size_t step);

}  // namespace foretrace::ranks
