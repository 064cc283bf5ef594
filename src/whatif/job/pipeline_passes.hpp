#pragma once
// The forward and backward passes of one rank of a recorded pipeline, micro-batch by micro-batch: which tasks belong to each, and which
// messages are between them. Derived from the order of launches.

#include <cstdint>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/draft.hpp"
#include "whatif/job/job_models.hpp"

namespace foretrace::whatif {

struct Pass {
  bool backward = false;
  Selection tasks;                  ///< of the CPU and the GPU, without messages
  Ns begin = 0;                     ///< on the CPU, since the step's begin
  std::uint32_t first_gpu = kNone;  ///< in order of launch
  std::uint32_t last_gpu = kNone;
};

struct PipelinePasses {
  std::vector<Pass> passes;             ///< in the order in which they ran
  std::vector<std::uint32_t> messages;  ///< tasks: kernels that send and receive, in order of launch
  std::uint32_t micro_batches = 0;
  bool forward_first = false;  ///< all forward passes before the first backward one
  Ns end = 0;                  ///< of the last pass, on the CPU

  /// The recorded pass (an index into `passes`) that a pass of this micro-batch, of so many, is like. The first and the last one differ
  /// from the others: gradients are new, or reduced.
  [[nodiscard]] std::size_t like(bool backward, std::uint32_t micro_batch, std::uint32_t of) const;
};

/// A message that one rank of a job sends or receives.
struct MessageEnd {
  std::uint32_t event, partner;  ///< partner: the other rank's slot
  bool sends, waits;
};
bool carries_a_message(const Meeting& meeting);
/// By slot, in the order of the job's meetings.
std::vector<std::vector<MessageEnd>> message_ends(const JobTies& ties);

/// `sends_and_receives`: by event, those of this rank. Declined where the order is not that of one stage with plain passes.
Result<PipelinePasses> find_passes(const graph::Graph& g, const std::vector<std::uint32_t>& sends_and_receives);

}  // namespace foretrace::whatif
