#pragma once
// Plans: one training job divided over many GPUs, from the step of one of them.
//
//   FORETRACE_TRY(const Plan plan, parse_plan("tp=2,pp=4,dp=8,microbatches=16"));
//   FORETRACE_TRY(Planner planner, Planner::make(base, {.network = {.fabric = "DGX-H100"}}));
//   const PlanPrediction p = planner.predict(plan);      // p.step; p.bubble; p.peak_bytes; p.tokens_per_s
//
// The trace's batch is that of one data-parallel replica: `pp` divides it into micro-batches, `cp` divides its sequence, `tp` and
// `ep` keep it. The changes on one GPU are predicted as what-ifs; stages, schedule and groups are composed here.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "foretrace/analysis/baseline.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::plan {

/// How many GPUs share what, and how. Experts are divided over GPUs of the data-parallel group: a job has tp * pp * cp * dp.
struct Plan {
  int tp = 1, pp = 1, cp = 1, ep = 1, dp = 1;
  int zero = 0;                      ///< of ZeRO: 1 optimizer states divided, 2 gradients too, 3 parameters too (FSDP)
  int shard = 0;                     ///< GPUs that divide them; 0: all of the data-parallel group. Fewer: HSDP
  bool sequence = false;             ///< tp: what is outside the products works on 1/tp of the positions
  bool vocab = true;                 ///< tp: embedding, head and loss divided too
  bool reduce = true;                ///< gradients summed over dp, cp and ep
  std::optional<int> microbatches;   ///< of a replica
  std::optional<double> microbatch;  ///< samples in each
  std::optional<double> global_batch;  ///< samples of the whole job
  std::string schedule = "1f1b";
  int chunks = 0;            ///< stages of a GPU; 0: what the schedule needs at least
  std::string balance;       ///< of stages: "time"; empty: equal numbers of blocks
  std::vector<int> stages;   ///< blocks of each stage, none in some; empty: by `balance`
  bool async = false;        ///< tp: sums of the input's gradient overlap the weight's gradient
  bool divide_keys = true;   ///< tp: key and value heads that do not divide are copied; false: such a model is declined
  double imbalance = 1;      ///< ep: tokens of the fullest GPU over the mean
  double capacity = 1;       ///< ep: tokens that each expert takes, as a multiple of the trace's
  bool reshard = true;       ///< zero=3: parameters are given back behind each forward pass
  bool cpu_offload = false;  ///< zero=3: parameters and states are in the host's memory
  std::optional<int> prefetch;  ///< zero=3: units gathered ahead
  /// Whether reductions overlap the backward pass and, with true, gathers of zero=1 and 2 the next forward pass. Nothing: reductions
  /// do, gathers do not.
  std::optional<bool> overlap;
  std::string kind;          ///< of cp: ring, ulysses, gather; empty: that what-if's default
  std::string param_dtype;   ///< "bf16": parameters gathered and computed with in that type; empty: as the trace does
  std::string reduce_dtype;  ///< of gradients on the network; empty: as they are
  bool master =
      false;  ///< gradients, states and a copy of the weights in FP32 in addition to weights in half precision
  std::optional<double> bucket_mb;  ///< of gradients that are reduced in one call
  bool buckets = false;             ///< of master: DDP's buckets in the weights' type in addition to the gradients
  bool fused_loss = false;          ///< softmax, loss and gradient of the logits are one tensor, in place
  bool outputs = false;  ///< the last stage keeps every micro-batch's output, as torch.distributed.pipelining does
  std::string order;     ///< of ranks, from neighbours outwards; empty: "tp-cp-dp-pp"
  std::string
      recompute;  ///< "full", "selective", "alternate", a number of blocks; empty or "none": what the trace does

  [[nodiscard]] std::int64_t workers() const { return std::int64_t{tp} * pp * cp * dp; }
  /// How many GPUs neighbours in a group ("tp", "cp", "dp", "pp") are from each other.
  [[nodiscard]] std::int64_t apart(std::string_view group) const;
  /// Every replica has its part of the experts, and nothing else is divided: what the what-if `ep` is.
  [[nodiscard]] bool experts_alone() const { return ep > 1 && dp == ep && cp == 1 && tp == 1 && zero == 0; }
  /// Blocks that are computed again, where `recompute` is a number of them.
  [[nodiscard]] std::optional<int> recomputed_blocks() const;
  bool operator==(const Plan&) const = default;
};

/// "tp=2,pp=4,dp=8,microbatches=16". `dp` is what `fsdp` or `ep` say where it is not given. Only what is wrong by itself is
/// refused; what does not fit a model or a batch shows when the plan is predicted.
Result<Plan> parse_plan(std::string_view text);
/// The same back, without what is as by default: "" of a plan of ones.
std::string to_text(const Plan& plan);

struct PlanOptions {
  whatif::NetworkChoice network;
  std::optional<int> layers;              ///< of the real model; nothing: as many as the trace has
  std::optional<double> samples = {};     ///< in the traced step; nothing: what the trace shows
  std::optional<double> global_batch;     ///< of all plans that say nothing
  std::string gpu;                        ///< another GPU for all of them; empty: the trace's
  std::optional<double> memory_gb;        ///< of a GPU; nothing: the device's
  std::optional<double> usd_per_hour;     ///< of a GPU; nothing: the device's
  std::vector<whatif::Use> changes = {};  ///< every GPU makes, in front of the plan's own
};

/// One GPU of a plan's pipeline.
struct PlanRank {
  std::vector<int> stages;  ///< it holds
  int blocks = 0;           ///< of the repeated block
  Ns busy = 0;              ///< computing, with collectives that nothing hides
  Ns bubble = 0;            ///< waiting for others until the pipeline is empty
  Ns gradients = 0;         ///< then: reductions and gathers that nothing hides
  Ns update = 0;            ///< of the parameters, behind them
  std::optional<std::int64_t> peak_bytes;
  std::int64_t states_bytes = 0;      ///< parameters, gradients and what the optimizer keeps
  std::int64_t activation_bytes = 0;  ///< kept for backward at the fullest moment
  double in_flight = 0;               ///< micro-batches then, in parts of this rank's model
};

/// A forward or backward in the simulated pipeline.
struct PlanAction {
  int rank = 0, microbatch = 0, chunk = 0;
  char kind = 'F';  ///< F, B, I (inputs only), W (weights)
  Ns start = 0, end = 0;
};

struct PlanPrediction {
  Plan plan;
  std::string text;
  std::int64_t workers = 1;
  int microbatches = 1;
  std::optional<double> global_batch;  ///< samples; nothing where the trace does not say its batch
  Ns step = 0, low = 0, high = 0;
  Ns bubble = 0;                           ///< in which the busiest rank waits for others
  Ns exposed_communication = 0;            ///< all of the following
  Ns exposed_groups = 0;                   ///< collectives of tp, cp and ep inside the passes
  Ns exposed_stages = 0;                   ///< sends between stages
  Ns exposed_gradients = 0;                ///< reductions of gradients, gathers of parameters
  std::optional<std::int64_t> peak_bytes;  ///< of the fullest GPU
  std::optional<bool> fits;
  std::optional<double> tokens;  ///< in a step of the whole job
  std::optional<double> mfu, tokens_per_s, samples_per_s;
  std::optional<double> usd_per_million_tokens;
  std::string origin;
  std::vector<std::string> not_modelled;
  Ns gpu_time = 0;                             ///< kernels and copies of the GPU that has most
  std::optional<std::int64_t> reserved_bytes;  ///< what the allocator takes for the peak
  double batches = 1;                          ///< traced batches in a step of the whole job
  std::vector<whatif::BandPart> band;          ///< what low and high are made of
  std::vector<PlanRank> ranks;
  std::vector<PlanAction> actions;  ///< of one pipeline, rank by rank in order; empty without one
  std::string declined;             ///< why nothing could be predicted
};

/// Predicts plans from one step. What several plans have in common on one GPU is computed once.
class Planner {
 public:
  /// Fails where the network, the GPU or the step's own facts do not allow any plan.
  static Result<Planner> make(const analysis::Baseline& baseline, const PlanOptions& options);
  ~Planner();
  Planner(Planner&&) noexcept;
  Planner& operator=(Planner&&) noexcept;

  enum class Actions : std::uint8_t { kKept, kDropped };
  /// `declined` says why a plan does not go with this model, batch or schedule.
  [[nodiscard]] PlanPrediction predict(const Plan& plan, Actions actions = Actions::kKept);

  struct Figures {
    std::string file, step_name, device, network;
    Ns unprofiled = 0;
    std::optional<Ns> measured;
    int traced_layers = 0, layers = 0;      ///< repeated blocks
    std::optional<double> samples, tokens;  ///< of the traced step
    double memory_gb = 0;                   ///< of a GPU; 0: unknown
    std::optional<double> usd_per_hour;
    int gpus_per_node = 1;
  };
  [[nodiscard]] const Figures& figures() const;

 private:
  struct State;
  explicit Planner(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// scale --plan: some plans, in the order asked for.
struct PlanReport {
  std::string verb;  ///< "scale", "plan"
  Planner::Figures figures;
  std::vector<PlanPrediction> plans;     ///< `plan`: best first
  std::vector<PlanPrediction> declined;  ///< `plan`: with the reason; those that do not fit too
  std::size_t tried = 0;
  std::int64_t gpus = 0;
  std::optional<double> tokens_wanted;  ///< days until so many
};

/// Predicts plans in place of this process, in any order; without their actions.
using PredictAll = std::function<Result<std::vector<PlanPrediction>>(const std::vector<Plan>&)>;

/// What `plan` tries.
struct SearchOptions {
  std::int64_t gpus = 8;
  std::size_t keep = 10;  ///< plans shown
  Progress progress = {};
  PredictAll predict_all = {};  ///< empty: the planner does
};
/// All sensible plans of so many GPUs, the fastest that fit first.
Result<PlanReport> search_plans(Planner& planner, const SearchOptions& options);

}  // namespace foretrace::plan
