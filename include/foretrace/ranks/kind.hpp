#pragma once
// What kind of job a set of ranks is: who shares the data, the parameters, the layers, the sequence or the experts. Found from what is
// communicated, where in the step, and by which process group; descriptions of groups ("mesh_tp") decide only where that leaves
// a choice.
//
//   report.kind.parallel == "tp2 dp4";  report.kind.groups[0].kind == Parallelism::kTensor;  report.kind.pipeline->bubble;

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/types.hpp"

namespace foretrace::ranks {

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

struct PipelineJob;  // job.hpp

/// The kind of a job from its operation log.
struct LoggedKind {
  std::string parallel, text;         ///< as in JobKind
  PipelineShape shape;                ///< without a bubble
  std::int64_t ranks_per_worker = 1;  ///< that share the work of each worker of the log
};
LoggedKind kind_of(const PipelineJob& job);

}  // namespace foretrace::ranks
