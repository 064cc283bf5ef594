#pragma once
// What a step does. Advice, snippets and the growth of work with the batch depend on it; this is the only place that decides.

#include <cstdint>
#include <string_view>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::graph {

enum class StepKind : std::uint8_t {
  kUnknown,     ///< nothing in the trace says it
  kTraining,    ///< a backward pass or an update of parameters
  kEvaluation,  ///< a forward pass alone
  kPrefill,     ///< a language model reads prompts, and fills its cache of keys and values
  kDecode,      ///< a language model generates one token per sequence
  kDiffusion,   ///< an image or video is denoised
};
std::string_view to_string(StepKind kind);

struct StepNature {
  StepKind kind = StepKind::kUnknown;
  std::int64_t sequences = 0;  ///< that a decode step works on; 0 when the trace does not say
  /// Whether it is known to train no parameters.
  [[nodiscard]] bool infers() const { return kind != StepKind::kTraining && kind != StepKind::kUnknown; }
  /// Whether the next step of the same sequences needs what this one gives.
  [[nodiscard]] bool generates() const {
    return kind == StepKind::kPrefill || kind == StepKind::kDecode || kind == StepKind::kDiffusion;
  }
};

/// From the names engines give their steps (src/trace/names/step_kinds.csv), from phases, kernels, and the shapes of attention.
StepNature step_nature(const trace::Trace& trace, const Graph& graph);

}  // namespace foretrace::graph
