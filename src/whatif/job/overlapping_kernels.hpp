#pragma once
// Kernels that run while a rank communicates are slower than alone. Where its collectives take other times, other kernels run next to
// them: these get what that costs, and those that are alone now get it back.

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

/// Writes the kernels' times into the draft: by their overlap in the step as it is, and in the step with these collectives.
void slow_overlapping_kernels(const Model& model, Draft& draft, const std::vector<OtherTransfer>& collectives);

}  // namespace foretrace::whatif
