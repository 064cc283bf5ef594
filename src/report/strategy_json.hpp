#pragma once
// A strategy as the file that `whatif --strategy` reads, and as a part of other JSON.

#include <string_view>

#include "foretrace/search/optimize.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// The members of a strategy, inside an object.
void write_strategy(JsonWriter& json, const search::Strategy& strategy);
/// A strategy and its prediction as the object `name`, and next to it the list "parts".
void write_plan(JsonWriter& json, const search::Optimized& plan, std::string_view name);

}  // namespace foretrace::report
