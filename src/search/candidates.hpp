#pragma once
// Changes worth trying by default: used by the moves of the search and by `advise`.

#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::search {

/// All uses that what-ifs, the catalogue's and those added, say are worth trying unasked, whatever the step does
/// (whatif::unfit_for).
std::vector<whatif::Use> candidates();

}  // namespace foretrace::search
