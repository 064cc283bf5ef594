#pragma once
// Kernels that run while a rank communicates are slower than alone. When the times of its collectives change, other kernels overlap
// with them: those that newly overlap become slower, those that no longer do become faster.

#include <cstdint>
#include <vector>

#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// A collective of the rank with the time it gets.
struct OtherTransfer {
  std::uint32_t task = 0;
  Ns becomes = 0;
  int channels = 0;  ///< thread blocks that it then occupies; 0: as many as recorded
};

/// Thread blocks that a recorded collective occupies; 0: unknown.
int recorded_channels(const Model& model, std::uint32_t task);

/// By task, the time of a collective in which none of the rank's kernels runs.
std::vector<Ns> exposed_communication(const Model& model);

/// Writes the kernels' times into the draft: by their overlap in the step as it is, and in the step with these collectives.
void slow_overlapping_kernels(const Model& model, Draft& draft, const std::vector<OtherTransfer>& collectives);

}  // namespace foretrace::whatif
