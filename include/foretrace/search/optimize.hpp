#pragma once
// The search for the best strategy: from "what if" to "do this".
//
//   Result<Optimized> o = optimize(base, {.memory_limit = 12'000'000'000});
//   o->best;  o->prediction.step;  o->parts[0].gain;
//
// A beam of strategies grows by moves (moves/, one file each). Moves say which part of the critical path they shorten; those
// that attack its longest part come first, so that a search that is cut short has tried what matters. A strategy over the memory
// limit may be an intermediate step, but is never the answer. For N workers the buckets of each strategy's gradients are found by
// search_tensors (tensors.hpp), and checked with the full model of contention.
//
// With a budget in evaluations the answer depends on the input, the options and the seed alone: not on threads, machines or
// time. `evaluate` lets other processes or a cluster predict candidates; answers are used in the order of the
// candidates, so it does not matter where they were computed.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::search {

// A strategy: everything that is decided about how a step runs, as a file people can read, change and give back.
//
//   {
//     "schema": 1,
//     "whatifs": [
//       {"whatif": "amp", "dtype": "bf16"},
//       {"whatif": "checkpoint", "layers": ["encoder.layer.0", "encoder.layer.1"]},
//       {"whatif": "accumulate", "n": 2}
//     ],
//     "communication": {
//       "workers": 16, "fabric": "10GbE", "scheme": "ddp", "compression": "none",
//       "buckets": [{"gradients": [0, 41], "mb": 25.3, "partitions": 1}, {"gradients": [42, 160], "mb": 72.1}]
//     }
//   }
//
// What-ifs are applied in order; one may also be written as text ("amp:dtype=bf16"), and lists as arrays. Gradients are
// numbered in the order backward makes them; a bucket holds a range of them, first and last.

/// Gradients [first, last] reduced together.
struct PlannedBucket {
  std::uint32_t first = 0, last = 0;
  double mb = 0;       ///< MiB, for people; nothing is computed from it
  int partitions = 1;  ///< parts reduced one after another
  friend bool operator==(const PlannedBucket&, const PlannedBucket&) = default;
};

struct Communication {
  int workers = 1;
  std::string fabric;       ///< name or file
  std::string collectives;  ///< file of measured collectives instead
  std::string collectives_tag;
  int gpus_per_node = 0;  ///< 0: the fabric's own
  std::string scheme = "ddp";
  std::string compression = "none";
  double bucket_mb = 25;  ///< without a plan: as PyTorch fills buckets
  std::optional<double> first_bucket_mb;
  std::vector<PlannedBucket> buckets;
  friend bool operator==(const Communication&, const Communication&) = default;
};

/// The same workers and network with what PyTorch does unasked: DistributedDataParallel with its own buckets.
Communication plain_communication(const Communication& communication);

struct Strategy {
  std::vector<std::string> whatifs;  ///< as on the command line, in order
  std::optional<Communication> communication;
  friend bool operator==(const Strategy&, const Strategy&) = default;
};

/// `origin` names the input in errors. Unknown keys, what-ifs and parameters are errors: a strategy is never half used.
Result<Strategy> parse_strategy(std::string_view text, const std::string& origin);
Result<Strategy> load_strategy(const std::string& path);

/// The what-ifs of a strategy, checked against the catalogue.
Result<std::vector<whatif::Use>> uses_of(const Strategy& strategy);

/// A use of a what-if for people: of long lists the first entry and how many, "checkpoint:layers=h.0|… (8)".
std::string short_use(std::string_view use);
/// "amp:dtype=bf16 + fused-optimizer, ddp in 4 buckets"; "as it is" when nothing changes.
std::string describe(const Strategy& strategy);
/// A text that differs between different strategies.
std::string key_of(const Strategy& strategy);

/// The figures of a strategy that a search needs.
struct Evaluation {
  std::string declined;  ///< why nothing could be predicted
  Ns step = 0;
  std::optional<std::int64_t> peak_bytes;
  double samples = 1;  ///< in a step, as a multiple of the traced step's
  /// What the allocator takes from the GPU for it, where the peak alone does not say that it fits.
  std::optional<std::int64_t> reserved_bytes = {};
  /// What is compared with a memory limit.
  [[nodiscard]] std::optional<std::int64_t> taken_bytes() const { return reserved_bytes ? reserved_bytes : peak_bytes; }
  [[nodiscard]] bool ok() const { return declined.empty(); }
};
using Evaluate = std::function<std::vector<Evaluation>(const std::vector<Strategy>&)>;

/// All of these changes together, whatever they are: also where one of them (`pp`) divides the layers over several GPUs.
whatif::Prediction predict_stack(const analysis::Baseline& base, const std::vector<whatif::Use>& uses);
/// One strategy, with its band unless `detail` says otherwise. Declined as a prediction is: with the reason.
whatif::Prediction predict_strategy(const analysis::Baseline& base, const Strategy& strategy,
                                    whatif::Detail detail = whatif::Detail::kFull);

/// Evaluates strategies in parallel, with the memory each reserves; the same answers on any number of threads (0: as many as
/// there are).
std::vector<Evaluation> evaluate_all(const analysis::Baseline& base, const std::vector<Strategy>& strategies,
                                     unsigned threads);

struct SearchProgress {
  std::size_t evaluations = 0;
  Ns step = 0;  ///< of the best so far
  std::string strategy;
};

struct OptimizeOptions {
  /// Bytes the allocator may reserve; else the device's memory less what the driver keeps.
  std::optional<std::int64_t> memory_limit;
  std::size_t evaluations = 1000;  ///< at most; each is one strategy predicted
  double seconds = 0;              ///< at most; 0: no limit. With a limit, answers may vary
  std::uint64_t seed = 1;
  unsigned threads = 0;
  std::size_t beam = 4;
  std::optional<Communication> communication = {};  ///< the workers and their network; none: one GPU
  std::vector<double> bucket_sizes = {};            ///< MiB, the only ones allowed; none: any, and free plans
  std::vector<std::string> only = {};               ///< names of what-ifs that may be used; none: all
  std::vector<Strategy> start = {};                 ///< also starts from these, in addition to today's step
  double least_gain = 0.005;  ///< a change stays in the answer when it gains at least this share of the step
  bool explain = true;        ///< say what each part of the answer is for
  Evaluate evaluate = {};     ///< instead of evaluate_all
  std::function<void(const SearchProgress&)> progress = {};
};

/// One part of the answer and what it contributes.
struct OptimizedPart {
  std::string text;  ///< the what-if as written, or "communication"
  Ns without = 0;    ///< the step without this part; 0: without it nothing is left that fits or can be predicted
  Ns gain = 0;
  std::optional<std::int64_t> saved_bytes;  ///< of the peak
  std::string why;                          ///< "shortens the GPU's part of the critical path by 12.1 ms"
  std::string may_break;
  std::string code;
};

struct Optimized {
  Strategy best;
  Ns baseline = 0;  ///< today's step
  std::optional<std::int64_t> baseline_peak;
  whatif::Prediction prediction;  ///< of `best`, in full but for the graph
  std::vector<OptimizedPart> parts;
  std::optional<std::int64_t> memory_limit;
  std::size_t evaluations = 0;        ///< 0: nothing was searched
  bool converged = false;             ///< ended by itself, not by a budget
  std::vector<std::string> declined;  ///< moves that do not apply here, and why
};

Result<Optimized> optimize(const analysis::Baseline& base, const OptimizeOptions& options);

/// A given strategy in the form of a search's result: compared with the same workers without it, part by part. Nothing is
/// searched; where it cannot be predicted, `prediction.declined` says why.
Optimized explain_strategy(const analysis::Baseline& base, const Strategy& strategy);

/// A move on strategies, for lists and documentation.
struct MoveInfo {
  std::string name, about, may_break;
};
/// Every move of the search, on strategies and on plans of gradients.
std::vector<MoveInfo> moves();

// What to switch on: every change of the catalogue that is worth trying, alone and together, within the GPU's memory.
//
//   Advised a = advise(base, {});
//   a.alone.front().prediction.whatif;      // "amp:dtype=bf16", the change that gains most
//   a.together->prediction.speedup;         // of the best combination found
//
// Changes are combined by the search of optimize.hpp, on one GPU: the same candidates and moves, the same predictions, the
// same account of what each part contributes.

struct AdviseOptions {
  /// Bytes the allocator may reserve; else the device's memory less what the driver keeps.
  std::optional<std::int64_t> memory_limit = {};
  double least_gain = 0.01;  ///< a change joins a combination when it gains at least this part
  unsigned threads = 0;      ///< 0: as many as the machine has; the answer is the same
  Progress progress = {};
};

/// One change, or several in the order they are applied, and what they give.
struct Advice {
  std::vector<whatif::Use> uses;
  whatif::Prediction prediction;
  double gain = 1;                                ///< samples per second, as a multiple of now
  bool fits = true;                               ///< what is reserved for it, within the limit
  whatif::Effort effort = whatif::Effort::kLine;  ///< of the change that takes most
  std::vector<std::string> code;  ///< of each use, the line that switches it on; empty where there is none
  [[nodiscard]] bool declined() const { return !prediction.declined.empty(); }
};

struct Advised {
  std::vector<Advice> alone;           ///< by gain; what was declined last
  std::optional<Advice> together;      ///< best combination at the same batch; none when nothing pays
  std::vector<OptimizedPart> parts;    ///< what each change of `together` contributes in addition to the others
  std::optional<Advice> larger_batch;  ///< best with a larger batch, where that pays more
  std::optional<std::int64_t> memory_limit;
  std::size_t tried = 0;    ///< predictions made
  std::string code_is_for;  ///< "PyTorch", "JAX"
};

Advised advise(const analysis::Baseline& base, const AdviseOptions& options);

}  // namespace foretrace::search
