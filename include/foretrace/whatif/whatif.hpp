#pragma once
// What-ifs: named changes of a training step, such as "amp" or "batch:x=2", and the prediction of a step with such changes.
//
//   const Use use = *parse_use("batch:x=2");
//   const Prediction p = analysis::predict(base, {use});      // analysis/baseline.hpp
//   p.step;  p.low;  p.high;      // ns: the predicted step and its 80 % band
//   if (!p.declined.empty()) p.reason();      // why the change does not apply to this step
//
// A WhatIf describes itself. Help, Python signatures, `foretrace list whatifs`, the documentation's table and "did you mean"
// all come from that description, and nothing else in the library asks for a what-if by name.

#include <array>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// What a what-if needs from the trace. Checked before it is applied.
enum class Need : std::uint8_t {
  kShapes,         ///< of operations' inputs
  kBackward,       ///< a backward pass
  kLayers,         ///< ranges that name modules
  kMemoryEvents,   ///< of the allocator
  kCommunication,  ///< between ranks
  kLoader,         ///< DataLoader ranges
};
std::string_view to_string(Need need);
/// "shapes; a backward pass"
std::string to_string(const std::vector<Need>& needs);
/// Why the model lacks something, for the user; empty when it does not.
std::string missing(const Model& model, Need need);

/// What a change acts on.
enum class Changes : std::uint8_t {
  kCosts,          ///< what tasks cost, and nothing else
  kBatch,          ///< samples in a step
  kAccumulation,   ///< passes in a step
  kPrecision,      ///< of products and what surrounds them
  kLayout,         ///< of tensors in memory
  kKernels,        ///< which kernels do the work of an operation
  kRecomputation,  ///< what is kept for the backward pass, and what is computed again
  kPlacement,      ///< where tensors are kept between uses
  kOptimizer,      ///< how the update runs
  kCompilation,    ///< operations fused by a compiler
  kLaunches,       ///< how the CPU hands work to the GPU
  kWaits,          ///< what the CPU waits for
  kInput,          ///< how batches arrive
  kHost,           ///< the CPU
  kDevice,         ///< the GPU
  kWorkers,        ///< how many there are, and how they share the work
  kNetwork,        ///< between them
  kSequence,       ///< positions in a sample: how long its sequence is
  kDepth,          ///< layers of the model
};
std::string_view to_string(Changes changes);

/// What a prediction says about one part of the answer.
enum class Part : std::uint8_t {
  kUnchanged,   ///< the change does not affect it
  kModelled,    ///< the prediction includes it
  kNotModelled  ///< it changes, and the prediction does not say how much
};
struct Parts {
  Part cpu = Part::kModelled, gpu = Part::kModelled, memory = Part::kUnchanged;
};
std::string_view to_string(Part part);

enum class ParameterType : std::uint8_t { kText, kNumber };

struct Parameter {
  std::string name;  ///< "dtype"
  std::string about;
  std::string default_value = {};         ///< used when not given
  std::vector<std::string> choices = {};  ///< the only values allowed, when not empty
  ParameterType type = ParameterType::kText;
  bool required = false;
  double minimum = 0;  ///< numbers must be greater than this
  Status (*check)(const std::string& value) =
      nullptr;  ///< for values that no list or bound describes: a device, a file
};

/// Values of one use. They passed the checks of the description, and every parameter has one.
class Parameters {
 public:
  [[nodiscard]] const std::string& text(std::string_view name) const;
  [[nodiscard]] double number(std::string_view name) const;                  ///< checked when parsed
  [[nodiscard]] std::vector<std::string> list(std::string_view name) const;  ///< split at '|'
  [[nodiscard]] bool given(std::string_view name) const;
  void set(std::string name, std::string value, bool given);

 private:
  std::map<std::string, std::pair<std::string, bool>, std::less<>> values_;
};

/// How much of a training script a change touches.
enum class Effort : std::uint8_t { kLine, kFewLines, kWork };
std::string_view to_string(Effort effort);

/// The order in which changes are combined: what changes the work comes before what changes how it runs.
enum class Stage : std::uint8_t { kBatch, kPrecision, kKernels, kMemory, kOptimizer, kRuntime };

/// How many measured steps a what-if was compared with, alone or combined, and of how many models. Counted by
/// tools/validation.py; zero for a what-if outside the catalogue.
struct Evidence {
  int rows = 0;
  int models = 0;
};

/// The steps a what-if is proposed for. Asked for by name, it is answered for any step.
enum class Fits : std::uint8_t {
  kAnyStep,
  kTraining,    ///< gradients, optimizers, activations kept for the backward pass
  kNotServing,  ///< not a step that generates: its next step needs what this one gives
};

/// What differs between two recordings of a program when a change was made. `foretrace compare` names the change by it. Changes whose
/// subject alone identifies them (`Changes::kDevice`, …) need no entry here.
enum class Difference : std::uint8_t {
  kProductsInFp16,  ///< most products run in this type
  kProductsInBf16,
  kProductsInTf32,
  kUpdateOverLists,  ///< the optimizer works on lists of parameters
  kUpdateFused,
  kAttentionFused,
  kMoreHostCopies,        ///< far more bytes are copied between host and GPU
  kGradientsInOtherType,  ///< collectives carry another type
  kOtherBuckets,          ///< the same gradients in another number of collectives
};
/// A difference, and the use of the what-if that makes it.
struct Explains {
  Difference difference = Difference::kProductsInFp16;
  std::string use = {};  ///< "amp:dtype=bf16"; empty: the what-if without parameters
};

struct ScriptPart;
struct ScriptPlaces;

/// A change and its description. `apply` writes the change into `draft` and lists what it leaves out in model.not_modelled; an
/// error of code kDeclined gives the reason why the change does not apply to this step.
struct WhatIf {
  std::string name = {};   ///< "fused-optimizer"
  std::string about = {};  ///< one sentence
  std::vector<Parameter> parameters = {};
  std::string assumes = {};       ///< what has to hold
  std::string source = {};        ///< paper or documentation
  std::string not_modelled = {};  ///< what it leaves out
  std::vector<Need> needs = {};   ///< checked by the driver before `apply` is called
  Changes changes = Changes::kCosts;
  Parts parts = {};
  Fits fits = Fits::kAnyStep;
  std::string code = {};            ///< how to switch it on in PyTorch, one line
  std::string inference_code = {};  ///< the same where nothing is trained; empty: `code`
  std::string jax_code = {};        ///< the same for a program of JAX; empty: there is no such line
  /// `code` with the values of its parameters. Null, or an empty text: they change nothing. `training`: the step computes gradients.
  std::string (*code_for)(const Parameters& parameters, bool training) = nullptr;
  Effort effort = Effort::kWork;
  Stage stage = Stage::kKernels;
  bool repeats_work =
      false;  ///< it copies parts of the step as the other changes leave them, so it is applied after them
  std::vector<std::string> advise = {};  ///< uses that `advise` tries; none: not worth switching on alone
  bool validated = false;  ///< agrees with its measured rows (docs/internals/accuracy.md), or is right by definition
  std::string definition = {};  ///< why there is nothing to measure; empty where there is
  Evidence evidence = {};       ///< filled in by the catalogue
  std::function<Status(Model& model, Draft& draft, const Parameters& parameters)> apply = {};
  /// Rejects combinations of values that are valid only separately, before the trace is read; null: all combinations are valid.
  Status (*check)(const Parameters& parameters) = nullptr;
  /// How the step shows that it has the change already, for the user; empty where it does not. None: no trace can show it.
  std::function<std::string(const Model& model, const Parameters& parameters)> already = {};
  /// Why it does not apply to a step compiled as a whole (JAX, XLA); empty: it applies there too.
  std::string whole_program = {};
  /// Why it has no effect on a GPU (TF32 on one without it); empty where it has. Null: it has an effect on every GPU.
  std::string (*no_effect_on)(const hardware::Device& device) = nullptr;
  /// Writes the lines that switch it on into a training script. Null: only `code` is shown.
  void (*write_code)(const ScriptPart& part, ScriptPlaces& to) = nullptr;
  /// Settings of a validated what-if without a measured step: "bits=8" (a value), "layers" (any value).
  std::vector<std::string> unvalidated = {};
  std::vector<Explains> explains = {};  ///< differences between two recordings that it accounts for
};

/// The catalogue, sorted by name. One file each under src/whatif/catalogue.
const std::vector<WhatIf>& catalogue();
/// The what-ifs that change this, by name; and the first of them in the catalogue, which has at least one of each.
std::vector<const WhatIf*> whatifs_that_change(Changes changes);
const WhatIf& first_whatif_that_changes(Changes changes);
/// The use of a what-if that makes this difference: "fused-optimizer"; empty where none does.
std::string use_that_explains(Difference difference);
/// Adds a what-if of the embedding program or of a plugin until the program ends, or replaces one added before under the same
/// name. Refused when the catalogue has the name, when the name holds a separator (: , | +), or when `advise` holds a use of
/// another what-if.
Status add_whatif(WhatIf whatif);
/// Those added, sorted by name.
std::vector<const WhatIf*> added_whatifs();
/// The catalogue and those added, sorted by name. The pointers stay valid.
std::vector<const WhatIf*> all_whatifs();
/// One of all of them; the error suggests the closest name.
Result<const WhatIf*> find_whatif(std::string_view name);

/// One use of a what-if as written: "amp", "batch:x=2", "checkpoint:layers='a,b'|c".
struct Use {
  const WhatIf* whatif = nullptr;
  Parameters parameters = {};
  std::string text = {};
  std::shared_ptr<const WhatIf> own = {};  ///< owns what `whatif` points to, where that is not in the catalogue
};
Result<Use> parse_use(std::string_view text);

/// What one family of errors contributes to the band: one standard deviation down and up.
struct BandPart {
  std::string family;  ///< "host", "gpu", "scaled", "combined", or what holds kernels back: "gemm", "bandwidth", …
  double sigma = 0;    ///< of log time
  Ns down = 0, up = 0;
  std::string why = {};  ///< for the user: "one step was recorded: nothing shows how steps vary"
};

/// A lower bound for a step with these changes, independent of the models: unchanged GPU work at its traced times, changed work
/// at the GPU's peak rates.
struct Bound {
  Ns step = 0;           ///< 0: the trace does not say
  std::string_view by;   ///< "GPU busy time", "roofline", "PCIe"
  bool decided = false;  ///< the models predicted less, and the answer is the bound
};

/// GPU time of a family of kernels, by graph::Origin.
struct FamilyTime {
  std::string_view family;
  std::string_view errors;  ///< the family of errors that covers it: "bandwidth"
  std::array<Ns, 4> time = {};
  [[nodiscard]] Ns total() const { return time[0] + time[1] + time[2] + time[3]; }
};

/// Of a job: where one rank spends the simulated step.
struct RankTime {
  std::int64_t rank = 0;
  Ns wait = 0;                   ///< inside collectives, for ranks that arrive later
  Ns transfer = 0;               ///< of collectives, from the last arrival on
  Ns gpu_time = 0;               ///< kernels and copies, without collectives
  std::uint32_t waited_for = 0;  ///< collectives at which it arrived last, and others waited
  std::optional<std::int64_t> peak_bytes;
};

/// Of a model divided into the stages of a pipeline.
struct PipelineFigures {
  int gpus = 1;  ///< that share the layers
  int microbatches = 1;
  Ns bubble = 0;                               ///< in which the busiest of them waits for the others
  std::optional<double> tokens, tokens_per_s;  ///< of the whole job; nothing where the trace does not show its batch
};

/// The answer: a step with some changes applied. Times in ns, of one step.
struct Prediction {
  std::string whatif;  ///< "amp + fused-optimizer"
  Ns step = 0;
  Ns low = 0, high = 0;                           ///< the 80 % band; only with Detail::kFull
  double speedup = 1;                             ///< today's step over this one
  Bound bound;                                    ///< `step` is never below it
  Ns gpu_time = 0;                                ///< sum of kernels and copies
  std::optional<std::int64_t> peak_bytes;         ///< of allocated memory; nothing without memory events
  std::optional<std::int64_t> reserved_bytes;     ///< what the allocator takes from the GPU; only with Detail::kFull
  std::optional<memory::Composition> peak_parts;  ///< what the peak consists of; only with Detail::kFull
  std::optional<bool> fits;  ///< into the GPU's memory, with the driver's share; nothing when unknown
  double samples = 1;        ///< in a step, relative to the traced step (batch)
  /// Samples per second, relative to today.
  [[nodiscard]] double gain() const { return speedup * samples; }
  /// Where the batch changes: the largest that fits the GPU, relative to the traced step's.
  std::optional<double> largest_batch;
  int workers = 1;
  int replicas = 1;              ///< of the model among the workers: the whole job's step is of so many times `samples`
  Ns communication = 0;          ///< time of all collectives
  Ns exposed_communication = 0;  ///< while no computation ran
  std::size_t buckets = 0;       ///< that gradients are reduced in
  std::string origin;            ///< where most uncertain costs come from: "measured", "scaled", "modelled", "analytic"
  std::vector<std::string> not_modelled;
  bool validated = false;  ///< every change applied is validated
  Evidence evidence;       ///< the least of the changes applied
  struct Applied {
    std::string text;
    std::size_t changed = 0;  ///< tasks changed, added or removed
    double seconds = 0;       ///< spent applying it
  };
  std::vector<Applied> applied;  ///< the changes, in order
  std::vector<BandPart> band;    ///< what low and high are made of
  /// Why the band is as wide as it is, for the user, the largest part first; only with Detail::kFull.
  [[nodiscard]] std::vector<std::string> band_reasons() const;
  std::vector<FamilyTime> gpu_families;
  std::string declined;  ///< why nothing could be predicted: "amp: …"; empty otherwise
  /// The same without the name of the change where there is only one.
  [[nodiscard]] std::string_view reason() const;
  graph::Graph graph;                        ///< the changed graph, for export
  std::vector<RankTime> ranks;               ///< of a job, by rank; only with Detail::kFull
  std::optional<std::int64_t> fullest_rank;  ///< of a job: the one whose memory this is
  /// Where a change divides the layers. There is no `graph` then: the GPUs do different work.
  std::optional<PipelineFigures> pipeline;
};
/// kStepOnly leaves out the band, the families and reserved memory: for searches that predict many and show few.
enum class Detail : std::uint8_t { kFull, kStepOnly };

}  // namespace foretrace::whatif
