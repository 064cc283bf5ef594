#pragma once
// The gradients of a recorded data-parallel job reduced in other buckets: gradients become ready when they did before, and the time of an
// all-reduce follows the recorded ones.

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

/// One rank's part; the same on every rank. `bytes`: of a bucket.
Status rebucket(Model& model, Draft& draft, std::int64_t bytes, BucketOrder order = BucketOrder::kReady);

}  // namespace foretrace::whatif
