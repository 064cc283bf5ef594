#pragma once
// What-ifs: named changes of a step with parameters, described once. Help, Python signatures, `foretrace list whatifs`, the
// documentation table and "did you mean" come from the description.

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

// What a what-if says of itself, typed: what it needs of a trace, what it changes, and which parts of the answer it models. The
// driver checks the needs; the search, the reports and other what-ifs ask what is changed, never for a name.

struct Model;

/// What the trace must hold.
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
/// Why the model cannot serve a need, in the user's words; empty when it can.
std::string missing(const Model& model, Need need);

/// What a change is a change of.
enum class Changes : std::uint8_t {
  kCosts,          ///< what tasks cost, and nothing else
  kBatch,          ///< samples in a step
  kAccumulation,   ///< passes in a step
  kPrecision,      ///< of products and what surrounds them
  kLayout,         ///< of tensors in memory
  kKernels,        ///< which kernels do the work of an operation
  kRecomputation,  ///< what is kept for the backward pass, and what is computed again
  kPlacement,      ///< where tensors are kept meanwhile
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
};
std::string_view to_string(Changes changes);

/// What a what-if knows of one part of the answer.
enum class Part : std::uint8_t {
  kUnchanged,   ///< the change leaves it as it is
  kModelled,    ///< the prediction has it
  kNotModelled  ///< it changes, and nobody says how much
};
struct Parts {
  Part cpu = Part::kModelled, gpu = Part::kModelled, memory = Part::kUnchanged;
};
std::string_view to_string(Part part);

enum class ParameterType : std::uint8_t { kText, kNumber };

struct Parameter {
  std::string name;  ///< "dtype"
  std::string about;
  std::string default_value = {};         ///< value when not given
  std::vector<std::string> choices = {};  ///< the only values allowed, when not empty
  ParameterType type = ParameterType::kText;
  bool required = false;
  double minimum = 0;                                   ///< numbers must be greater
  Status (*check)(const std::string& value) = nullptr;  ///< of values no list or bound can tell: a device, a file
};

/// Values of one use, checked against the description: every parameter is present.
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

/// What it takes to switch a change on in a training script.
enum class Effort : std::uint8_t { kLine, kFewLines, kWork };
std::string_view to_string(Effort effort);

/// Where a change stands when several are combined: what changes the work comes before what changes how it runs.
enum class Stage : std::uint8_t { kBatch, kPrecision, kKernels, kMemory, kOptimizer, kRuntime };

/// Measured steps a what-if has been compared with, alone or among others, and how many models they are of. Counted from the
/// measurements by tools/validation.py; none for a what-if that is not of the catalogue.
struct Evidence {
  int rows = 0;
  int models = 0;
};

struct ScriptPart;
struct ScriptPlaces;

/// A change is written into `draft`; what it could not model goes to model.not_modelled. An error of code kDeclined means
/// "does not apply here", with the reason.
struct WhatIf {
  std::string name;   ///< "fused-optimizer"
  std::string about;  ///< one sentence
  std::vector<Parameter> parameters;
  std::string assumes;       ///< what has to hold
  std::string source;        ///< paper or documentation
  std::string not_modelled;  ///< what it leaves out
  std::vector<Need> needs;   ///< checked by the driver before `apply` is called
  Changes changes = Changes::kCosts;
  Parts parts = {};
  std::string code;           ///< how to switch it on in PyTorch, one line
  std::string jax_code = {};  ///< how to switch it on in JAX, one line; empty: it does not apply there
  Effort effort = Effort::kWork;
  Stage stage = Stage::kKernels;
  std::vector<std::string> advise = {};  ///< uses `advise` tries; none: nobody would switch it on by itself
  bool validated = false;  ///< meets its measured rows (docs/internals/accuracy.md), or is right by definition
  Evidence evidence = {};  ///< filled in by the catalogue
  std::function<Status(Model& model, Draft& draft, const Parameters& parameters)> apply;
  /// Of values that are right one by one and wrong together, before the trace is read; none: any go together.
  Status (*check)(const Parameters& parameters) = nullptr;
  /// Why the step has it already, in the user's words; empty where it does not. None: no trace shows it.
  std::string (*already)(const Model& model, const Parameters& parameters) = nullptr;
  /// Why it says nothing of a step that a compiler made one program of (JAX, XLA); empty: it applies there too.
  std::string whole_program = {};
  /// Why it has no effect on a GPU (TF32 on one without it); empty where it has. None: it has an effect everywhere.
  std::string (*no_effect_on)(const hardware::Device& device) = nullptr;
  /// Writes the lines that switch it on into a training script. None: `code` is left to people.
  void (*write_code)(const ScriptPart& part, ScriptPlaces& to) = nullptr;
  /// Of one that is validated, what no measured step had: "bits=8", a parameter's value; "layers", any value of it.
  std::vector<std::string> unvalidated = {};
};

/// The catalogue, sorted by name. One file each under src/whatif/catalogue.
const std::vector<WhatIf>& catalogue();
/// Those that change this, by name; and the first of the catalogue that does: it has one of every kind.
std::vector<const WhatIf*> that_change(Changes changes);
const WhatIf& the_one_that_changes(Changes changes);
/// Makes a what-if of a program or plugin known beside the catalogue's until the program ends, or replaces one of the same
/// name that was added before. Refused when the catalogue has the name, it holds a character uses are split at, or a use it
/// advises is none of its own.
Status add_whatif(WhatIf whatif);
/// What was added, sorted by name.
std::vector<const WhatIf*> added_whatifs();
/// The catalogue and everything added, sorted by name; what it points to stays.
std::vector<const WhatIf*> all_whatifs();
/// Among all of them; an error with the closest name otherwise.
Result<const WhatIf*> find_whatif(std::string_view name);

/// One use of a what-if as written: "amp", "batch:x=2", "checkpoint:layers='a,b'|c".
struct Use {
  const WhatIf* whatif = nullptr;
  Parameters parameters = {};
  std::string text = {};
  std::shared_ptr<const WhatIf> own = {};  ///< what `whatif` points to where it is not the catalogue's
};
Result<Use> parse_use(std::string_view text);

/// What one family of errors adds to a band, one standard deviation up and down.
struct BandPart {
  std::string family;  ///< "host", "gpu", "scaled", "combined", or what holds kernels back: "gemm", "bandwidth", …
  double sigma = 0;    ///< of log time
  Ns down = 0, up = 0;
};

/// GPU time of a family of kernels, by graph::Origin.
struct FamilyTime {
  std::string_view family;
  std::string_view errors;  ///< the family of errors it belongs to: "bandwidth"
  std::array<Ns, 4> time = {};
  [[nodiscard]] Ns total() const { return time[0] + time[1] + time[2] + time[3]; }
};

/// The answer to one question: the step with some changes in it.
struct Prediction {
  std::string whatif;  ///< "amp + fused-optimizer"
  Ns step = 0, low = 0, high = 0;
  double speedup = 1;
  Ns gpu_time = 0;  ///< sum of kernels and copies
  std::optional<std::int64_t> peak_bytes;
  /// What the allocator takes from the GPU for it, where detail was asked for.
  std::optional<std::int64_t> reserved_bytes;
  std::optional<memory::Composition> peak_parts;  ///< where there is a peak and detail was asked for
  std::optional<bool>
      fits;  ///< what is reserved and what the driver keeps into the GPU's memory; nothing when either is unknown
  double samples = 1;  ///< in a step, as a multiple of the traced step's (batch)
  /// Samples per second, as a multiple of now.
  [[nodiscard]] double gain() const { return speedup * samples; }
  /// Where the batch changes: the largest that fits the GPU, as a multiple of the traced step's.
  std::optional<double> largest_batch;
  int workers = 1;
  Ns communication = 0;          ///< time of all collectives
  Ns exposed_communication = 0;  ///< while nothing else ran
  std::size_t buckets = 0;       ///< gradients are reduced in so many
  std::string origin;
  std::vector<std::string> not_modelled;
  bool validated = false;  ///< everything applied is
  Evidence evidence;       ///< of what was applied, the least
  struct Applied {
    std::string text;
    std::size_t changed = 0;  ///< tasks changed, added or removed
    double seconds = 0;       ///< spent applying it
  };
  std::vector<Applied> applied;  ///< the changes, in order
  std::vector<BandPart> band;    ///< what low and high are made of
  std::vector<FamilyTime> gpu_families;
  std::string declined;  ///< the reason, when nothing could be predicted: "amp: …", the change that does not apply
  /// The same to stand behind `whatif`: without the name where that is of one change only.
  [[nodiscard]] std::string_view reason() const;
  graph::Graph graph;  ///< the changed graph, for export
};
/// kStepOnly leaves out the band and the families, for those who predict many and show few.
enum class Detail : std::uint8_t { kFull, kStepOnly };
/// The driver, and the only one: applies uses in order, proves the graph sound after each, simulates, and puts a band around
/// the answer. Every verb, the search and Python ask here. `measured`: the step of today without the profiler, where known.
Prediction predict(const Model& base, const std::vector<Use>& uses, std::optional<Ns> measured,
                   Detail detail = Detail::kFull);
/// The first half of it: the model with every use applied; declined, with the reason, when one of them does not apply.
Result<Model> apply_uses(const Model& base, const std::vector<Use>& uses,
                         std::vector<Prediction::Applied>* applied = nullptr);
/// GPU time by family of kernels and origin of its cost.
std::vector<FamilyTime> family_times(const Model& model);

}  // namespace foretrace::whatif
