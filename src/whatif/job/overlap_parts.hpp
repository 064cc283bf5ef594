#pragma once
// Collectives of a recorded step overlapping the computation next to them: cut into parts together with a product, or started as early and waited for
// as late as the data allows.

#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/model.hpp"
#include "whatif/job/overlap_places.hpp"

namespace foretrace::whatif {

/// On one rank; `parts` of each product that is cut. A part of a kernel or of a transfer takes at least its share of the whole.
void overlap_at(Model& model, Draft& draft, const std::vector<OverlapPlace>& places, int parts);

}  // namespace foretrace::whatif
