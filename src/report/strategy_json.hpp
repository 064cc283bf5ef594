#pragma once
// A strategy as the file that `whatif --strategy` reads, and as a part of other JSON.

#include "foretrace/search/strategy.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// The members of a strategy, inside an object.
void write_strategy(JsonWriter& json, const search::Strategy& strategy);

}  // namespace foretrace::report
