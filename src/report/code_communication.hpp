#pragma once
// How a strategy's workers share the work, as lines of a training script.

#include <string>

#include "foretrace/search/optimize.hpp"
#include "whatif/model/script.hpp"

namespace foretrace::report {

/// Writes what divides the work among workers; false where the scheme has no code.
bool write_communication(const search::Communication& c, const std::string& gain, whatif::ScriptPlaces& places);

}  // namespace foretrace::report
