#pragma once
// What a what-if says of itself, typed: what it needs of a trace, what it changes, and which parts of the answer it models. The
// driver checks the needs; the search, the reports and other what-ifs ask what is changed, never for a name.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace::whatif {

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

}  // namespace foretrace::whatif
