#pragma once
// What every rank of a pipeline does in which order: a pure function of schedule, ranks, micro-batches and chunks.
//
//   Result<PipelineSchedule> s = make_pipeline_schedule({ScheduleKind::kOneForwardOneBackward, 2, 4, 1});
//   s->ranks[0]      // F0 F1 B0 F2 B1 F3 B2 B3
//   s->ranks[1]      // F0 B0 F1 B1 F2 B2 F3 B3
//
// The model is cut into stages. A rank holds one stage per chunk: `chunks` of them when the schedule is interleaved (rank 0
// of two holds stages 0 and 2 of four), and with DualPipe the two stages r and ranks - 1 - r, because micro-batches enter at
// both ends. Orders are those of Megatron-LM, torch.distributed.pipelining and DeepSeek's DualPipe. Times are not known here:
// `run_pipeline` has them.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"

namespace foretrace::simulate {

enum class ScheduleKind : std::uint8_t {
  kGpipe,                  ///< all forwards, then all backwards
  kOneForwardOneBackward,  ///< alternating as soon as the first backward can run
  kInterleaved,            ///< the same with several stages per rank
  kZeroBubble,             ///< ZB1P: gradients of weights apart from those of inputs, moved into the bubble
  kDualPipe,               ///< micro-batches from both ends; a forward overlaps a backward
};
/// "gpipe", "1f1b", "interleaved", "zb1p", "dualpipe"
std::string_view name_of(ScheduleKind kind);
Result<ScheduleKind> schedule_named(std::string_view name);

enum class ActionKind : std::uint8_t {
  kForward,         ///< F
  kBackward,        ///< B: gradients of inputs and of weights
  kBackwardInput,   ///< I: of inputs only; a kBackwardWeight follows
  kBackwardWeight,  ///< W
};

struct PipelineAction {
  ActionKind kind = ActionKind::kForward;
  std::uint32_t microbatch = 0;
  std::uint32_t chunk = 0;
  bool overlaps_previous = false;  ///< runs at the same time as the action before it (DualPipe's pairs)
  bool operator==(const PipelineAction&) const = default;
};

struct PipelineShape {
  ScheduleKind kind = ScheduleKind::kOneForwardOneBackward;
  std::uint32_t ranks = 1;
  std::uint32_t microbatches = 1;
  std::uint32_t chunks = 1;  ///< stages of a rank; DualPipe always has two
};

struct PipelineSchedule {
  PipelineShape shape;
  std::vector<std::vector<PipelineAction>> ranks;  ///< in the order in which a rank does them

  /// Stages that one micro-batch passes.
  [[nodiscard]] std::uint32_t stages() const;
  /// The stage that a rank's chunk is.
  [[nodiscard]] std::uint32_t stage_of(std::uint32_t rank, std::uint32_t chunk) const;
  /// The most activations a rank's chunk holds at once, in micro-batches: from a forward to the end of its backward. Of the
  /// moment when the rank holds most in all.
  [[nodiscard]] std::vector<std::uint32_t> most_in_flight(std::uint32_t rank) const;
};

/// Refuses what the schedule cannot do: chunks without interleaving, micro-batches that do not divide into rounds, an odd
/// number of ranks with DualPipe.
Result<PipelineSchedule> make_pipeline_schedule(const PipelineShape& shape);

/// "F0 F1 B0 …"; chunks other than the first as "F0.1", pairs as "F3+B0.1".
std::string to_text(const std::vector<PipelineAction>& actions);

}  // namespace foretrace::simulate
