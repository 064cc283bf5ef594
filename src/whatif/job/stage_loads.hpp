#pragma once
// What each stage of a recorded pipeline computes, and how much of it one repeated block is.

#include <cstddef>
#include <vector>

#include "whatif/job/job_models.hpp"

namespace foretrace::whatif {

/// Of a stage's passes, without messages.
struct StageLoad {
  double time = 0;         ///< ns, on what limits the stage: its GPU, or the CPU that feeds it
  double block = 0;        ///< of that, one repeated block
  std::size_t blocks = 0;  ///< 0: no block repeats, or the passes are not those of a plain pipeline
  /// What stays where it is: embedding, head, loss.
  [[nodiscard]] double fixed() const { return time - block * static_cast<double>(blocks); }
};

/// By stage; the mean of its ranks. Empty where the job is no pipeline.
std::vector<StageLoad> stage_loads(const JobModels& job);

/// Forward and backward passes, which go to another stage with their layers; not messages, and not the optimizer.
bool moves_with_layers(const graph::Graph& g, std::uint32_t task);

}  // namespace foretrace::whatif
