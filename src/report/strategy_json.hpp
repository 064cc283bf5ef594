#pragma once
#include "foretrace/search/strategy.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// The members of a strategy, inside an object.
void write_strategy(JsonWriter& json, const search::Strategy& strategy);

}  // namespace foretrace::report
