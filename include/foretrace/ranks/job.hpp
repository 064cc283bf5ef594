#pragma once
// A job: the traces of its ranks, read together and put in order.
//
//   FORETRACE_TRY(ranks::Job job, ranks::load_job(files));
//   job.ranks[1].rank;  job.missing;  job.notes;
//
// Files that cannot take part (unreadable, of another job, a rank given twice) are left out with a note; the answers
// come from the others.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::ranks {

struct Rank {
  std::int64_t rank = 0;  ///< as the trace says; its place among the files when none does
  trace::Trace trace;
  trace::Steps steps;
  std::string host;  ///< where the trace or its file's name shows it; else empty
};

struct Job {
  std::vector<Rank> ranks;  ///< by rank
  std::int64_t world_size = 0;
  std::vector<std::int64_t> missing;  ///< ranks of the job no trace was given of
  bool ranks_named = true;            ///< false: no trace says its rank; the order of the files counts
  std::vector<std::string> notes;     ///< what was left out or assumed, in sentences
};

/// Reads all files, several at a time; the result does not depend on how many. One entry per file.
std::vector<Result<trace::Trace>> load_all(const std::vector<std::string>& files, const trace::LoadOptions& options);

/// Puts traces of one job together. Declined when none is left.
Result<Job> assemble(std::vector<trace::Trace> traces);

/// What was read of each file put together. A file that cannot be read is a note as long as another can be, and an error
/// otherwise.
Result<Job> assemble(const std::vector<std::string>& files, std::vector<Result<trace::Trace>> read);
/// load_all and assemble.
Result<Job> load_job(const std::vector<std::string>& files, const trace::LoadOptions& options = {});

/// "0, 3-5 and 12 more": numbers, sorted, no longer than a line.
std::string list_of(const std::vector<std::int64_t>& numbers);

/// Whether the profiler numbered the steps of all ranks and the numbers overlap: then they say which steps belong together.
bool steps_are_numbered(const Job& job);

// Clocks of a job: how far each rank's clock is ahead of the first rank's, and how much faster it runs.
//
// Every matched collective says two things. Nobody can end before everybody it waits for has started: a difference
// constraint between two clocks. And the transfer, from the last arrival to the end, takes as long on all ranks, and as
// long in every step: the offsets sought are those with the least variance of the transfers (families weighed by how
// well they agree) that break no constraint, and those of one host should agree. That is the problem dPRO's paper states,
// as a quadratic programme with the constraints added as they are violated.

struct Clock {
  Ns offset = 0;           ///< this clock is ahead of the first rank's by so much, at `reference`
  double drift_ppm = 0;    ///< and gains so much
  Ns reference = 0;        ///< on this clock
  Ns uncertainty = 0;      ///< standard error of the offset
  bool known = true;       ///< false: no collective ties this rank to the first; the clock is taken as it is
  std::uint32_t host = 0;  ///< ranks of one number share a clock

  /// The first rank's clock when this one shows t.
  [[nodiscard]] Ns aligned(Ns t) const;
};

/// An order that no setting of the clocks explains.
struct Impossible {
  std::uint32_t collective;
  std::uint32_t late, early;  ///< ranks (indices): `early` ended before `late`, which it waits for, had started
  Ns by;
};

struct Clocks {
  std::vector<Clock> clocks;  ///< per rank of the job
  Ns end_spread = 0;      ///< how far apart ranks end the same collective on aligned clocks: median over collectives
  Ns raw_end_spread = 0;  ///< the same on the clocks as written
  std::uint64_t violations_before = 0;  ///< collectives in an impossible order on the clocks as written
  std::vector<Impossible> impossible;   ///< those left: contradictory measurements, worst first
  bool drift_fitted = false;
  std::uint32_t hosts = 0;
};

// Stragglers: ranks (or links) that delay the job, why, and what the step would cost without them.
//
// Each rank is compared with the typical one, cause by cause: the rank whose total is the (lower) median. For a rank that
// is slower, the typical rank's costs are put in place of its own and the job is simulated again; the difference is what
// this cause costs. Nothing is guessed from names of ranks or from thresholds on durations.

enum class StragglerCause : std::uint8_t {
  kSlowKernel,  ///< its GPU takes longer for the same kernels
  kLateLaunch,  ///< its CPU takes longer for the same operations
  kDataLoader,  ///< its input comes late
  kLateStart,   ///< it began the step after the others
  kSlowLink,    ///< transfers take longer than the same transfers elsewhere
};
std::string_view to_string(StragglerCause cause);
inline constexpr std::size_t kStragglerCauses = 5;

struct Straggler {
  std::uint32_t rank = 0;  ///< index into Job::ranks; of a slow link, the rank whose transfers are slow
  StragglerCause cause = StragglerCause::kSlowKernel;
  Ns cost = 0;    ///< how much longer this alone makes a job of otherwise typical ranks
  Ns saves = 0;   ///< how much shorter the job would be without it alone: less than `cost` when others are late too
  Ns excess = 0;  ///< how much longer its work of this kind is than the typical rank's
  std::uint32_t like = 0;  ///< the typical rank it is compared with
  std::string worst;       ///< the task that adds most to the excess
  Ns worst_excess = 0;
};

struct Stragglers {
  std::vector<Straggler> found;  ///< those that cost at least kNotable of the step, dearest first
  Ns step = 0;                   ///< simulated, as it is
  Ns without_any = 0;            ///< simulated, every rank as fast as the typical one
  /// Below this share of the step a difference between ranks is noise and is not reported.
  static constexpr double kNotable = 0.01;
  Ns clock_error =
      0;  ///< differences below it may be errors of the clocks: the largest excess that was not reported for this reason
};

// What kind of job a set of ranks is: who shares the data, the parameters, the layers, the sequence or the experts. Found from what is
// communicated, where in the step, and by which process group; descriptions of groups ("mesh_tp") decide only where that leaves
// a choice.

enum class Parallelism : std::uint8_t {
  kTensor,    ///< layers are divided: activations are reduced (or gathered and scattered) in forward and backward
  kContext,   ///< the sequence is divided: attention exchanges heads, or keys and values
  kExpert,    ///< experts are divided: tokens are exchanged around them
  kTables,    ///< embedding tables are divided: looked-up rows are exchanged
  kPipeline,  ///< the layers are stages: activations are sent forward, gradients back
  kSharded,   ///< parameters are divided: gathered before use, gradients scattered
  kData,      ///< the batch is divided: gradients are reduced
  kTied,      ///< the first and the last stage share parameters
  kOther,     ///< little is moved: norms, losses, flags
};
/// "tp", "cp", "ep", "emb", "pp", "fsdp", "dp", "tied", "other".
std::string_view to_string(Parallelism kind);

/// What one process group does for one kind of parallelism in the step. Times and bytes are means over its ranks that were given.
struct JobGroup {
  Parallelism kind = Parallelism::kOther;
  std::string name, description;
  std::vector<std::int64_t> ranks;  ///< that belong to it; those seen where the traces do not say
  std::uint32_t group = 0;          ///< index into Matching::groups
  std::uint32_t kinds = 0;          ///< of its operations: bits of CollectiveKind
  std::uint64_t operations = 0;     ///< of one rank
  double bytes = 0;                 ///< moved by one rank: of the input, of all-gathers the output
  Ns wait = 0, transfer = 0;        ///< in its kernels: for the last rank, and from then on
  Ns exposed = 0;                   ///< its kernels run and no compute kernel does
  double bandwidth_gbs = 0;         ///< bytes / transfer; 0: no size is known
  double fabric_gbs = 0;            ///< the same over the fabric as modelled; 0: unknown
};

enum class Schedule : std::uint8_t { kUnknown, kGPipe, kOneForwardOneBackward, kInterleaved, kZeroBubble, kDualPipe };
/// "gpipe", "1f1b", "interleaved", "zb1p", "dualpipe"; "unknown".
std::string_view to_string(Schedule schedule);

struct PipelineShape {
  std::uint32_t stages = 0;
  std::uint32_t chunks = 1;         ///< of layers that each rank holds
  std::uint32_t micro_batches = 0;  ///< 0: unknown
  Schedule schedule = Schedule::kUnknown;
  /// Mean over the ranks: time without a compute kernel while a receive is under way. What the host leaves idle is not in it.
  Ns bubble = 0;
};

/// One rank's place in the job.
struct RankPlace {
  std::uint32_t stage = 0;  ///< of the pipeline; 0 without one
  std::uint32_t peers = 0;  ///< ranks of the same number do the same work by construction
  Ns compute = 0;           ///< time with a compute kernel
  Ns bubble = 0;            ///< as in PipelineShape
};

struct JobKind {
  /// "tp2 dp4", "pp2", "fsdp4"; empty when nothing but norms and flags is communicated.
  std::string parallel;
  /// In words: "tensor parallel over 2 ranks, with sequence parallel × data parallel over 4".
  std::string text;
  std::vector<JobGroup> groups;  ///< by kind, then by their ranks
  std::optional<PipelineShape> pipeline;
  bool sequence_parallel = false;    ///< tensor parallel that gathers and scatters activations
  int zero = 0;                      ///< 1 to 3: what is sharded over data-parallel ranks; 0: nothing
  bool hybrid = false;               ///< sharded groups that are replicated (HSDP)
  std::vector<RankPlace> places;     ///< per rank of the job
  std::string fabric;                ///< that `fabric_gbs` is of; empty: unknown
  std::vector<std::int64_t> absent;  ///< ranks that groups name and no trace was given of

  /// What an operation of a group (index into Matching::groups; the bit of its CollectiveKind) is there for.
  [[nodiscard]] Parallelism purpose(std::uint32_t group, std::uint32_t kind_bit) const;
  /// Ranks of a kind's groups: 2 for "tp2"; 1 where the job has none.
  [[nodiscard]] std::uint32_t size_of(Parallelism kind) const;
};

// Pipeline-parallel jobs from operation traces: every operation of every worker (a data-parallel rank and a pipeline stage)
// over many steps, at the level of micro-batches rather than kernels.
//
//   FORETRACE_TRY(PipelineJob job, read_pipeline(trace));
//   FORETRACE_TRY(PipelineAnswers a, answer(job));        a.steps[0].replayed;  a.slowdown;  a.by_stage;
//
// What an operation waits for:
// a worker's computations run one after another; its forward sends, forward receives, backward sends and backward receives
// do so too, each kind for itself;
// a receive comes before the computation of its micro-batch and after the computation before that; a send after its own;
// parameters are gathered before the first forward of their chunk; behind the last computation come garbage collection,
// layer-norm and embedding gradients, gradient reduction, clipping, the optimizer;
// a send is matched with the receive of its chunk and micro-batch; data-parallel collectives join the ranks of a stage, embedding
// gradients the first and the last stage, clipping all workers.
// Communication costs its time since the last participant came; waiting comes out of the simulation.

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

/// The kind of a job from its operation log.
struct LoggedKind {
  std::string parallel, text;         ///< as in JobKind
  PipelineShape shape;                ///< without a bubble
  std::int64_t ranks_per_worker = 1;  ///< that share the work of each worker of the log
};
LoggedKind kind_of(const PipelineJob& job);

}  // namespace foretrace::ranks
