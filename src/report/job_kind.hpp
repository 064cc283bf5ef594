#pragma once
// The kind of a job, and what its process groups move, as text and JSON.

#include <string>

#include "foretrace/analysis/ranks.hpp"
#include "foretrace/report/report.hpp"
#include "report/json_writer.hpp"

namespace foretrace::report {

/// Empty where nothing is known.
std::string kind_text(const analysis::RanksReport& report, const TextStyle& style);
/// Members of the object that is open.
void write_kind(JsonWriter& json, const ranks::JobKind& kind);

}  // namespace foretrace::report
