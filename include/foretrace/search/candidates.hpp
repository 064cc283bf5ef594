#pragma once
// What is worth trying unasked, and in which order changes are applied. The moves of the search and `advise` take both from
// here.

#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::search {

/// All uses that what-ifs, the catalogue's and those added, say are worth trying unasked.
std::vector<whatif::Use> candidates();

/// Uses in the order they are to be applied: what changes the work before what changes how it runs (whatif::Stage).
std::vector<whatif::Use> in_order(std::vector<whatif::Use> uses);

}  // namespace foretrace::search
