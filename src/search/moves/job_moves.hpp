#pragma once
// What the search may change in a recorded job but not in a single trace: the buckets of its reductions and the type they travel in,
// its pipeline's order and micro-batches, and the layers of its stages.

#include <cstdint>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/whatif.hpp"

namespace foretrace::search {

/// What moves ask of a job.
struct JobTraits {
  bool reduces_gradients = false;   ///< in buckets, as DistributedDataParallel does
  bool half_gradients = false;      ///< … in half precision
  bool stages = false;              ///< ranks hold different layers
  std::uint32_t micro_batches = 0;  ///< of a pipeline whose passes can be told apart; else 0
};
/// Of a single trace: nothing of all that.
JobTraits job_traits(const whatif::Model& model);

/// Those uses of the moves that are worth trying on the job as it is.
std::vector<whatif::Use> job_candidates(const whatif::Model& model);

}  // namespace foretrace::search
