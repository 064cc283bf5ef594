#pragma once
// How often each what-if of the catalogue has been compared with measured steps: validation/counts.csv, which
// tools/validation.py writes from the measurements themselves.

#include <string_view>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Nothing for a name without measured rows.
Evidence evidence_of(std::string_view name);
/// Of several what-ifs used together: what the one with the fewest rows, and the one with the fewest models, has.
Evidence least_evidence(const std::vector<Use>& uses);

}  // namespace foretrace::whatif
