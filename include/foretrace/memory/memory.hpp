#pragma once
// GPU memory over a step: what was allocated when, by whom, for how long. The allocator follows the CPU's program order, so
// the curve is computed over that order and a what-if changes sizes and lifetimes rather than times.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/steps.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::memory {

enum class Kind : std::uint8_t { kParameter, kGradient, kOptimizerState, kActivation, kTemporary, kInput, kUnknown };
inline constexpr std::size_t kKinds = 7;
std::string_view to_string(Kind kind);

/// One block of memory during the step.
struct Block {
  std::int64_t bytes = 0;
  std::uint32_t allocated = 0;   ///< position in program order (index of the memory event), 0: before the step
  std::uint32_t freed = UINT32_MAX;  ///< UINT32_MAX: after the step
  Kind kind = Kind::kUnknown;
  graph::Phase phase = graph::Phase::kOther;  ///< in which it was allocated
  StringId op;                   ///< trace string: the innermost operation that allocated it
  std::uint32_t op_event = UINT32_MAX;
  StringId layer_range;          ///< trace string of the layer range around it, empty when none
  std::int64_t saved_elements = 0;
};

struct Curve {
  std::vector<Block> blocks;     ///< those alive at the start first
  std::int64_t start_bytes = 0;  ///< allocated when the step begins
  std::int64_t peak_bytes = 0;
  std::uint32_t peak_at = 0;     ///< position
  std::string peak_op;
  std::array<std::int64_t, kKinds> at_peak = {};  ///< bytes by kind
  std::int64_t resting_bytes = 0;                 ///< the smallest level: what outlives steps
};

/// The curve of one step; nothing when the trace has no memory events of a GPU.
std::optional<Curve> curve(const trace::Trace& trace, const trace::Step& step);
/// Recomputes peak and totals from the blocks (after a what-if changed them).
void recompute(Curve& curve);

}  // namespace foretrace::memory
