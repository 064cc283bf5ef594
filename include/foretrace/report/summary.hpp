#pragma once
// Where the time of one step goes, as text and JSON.

#include <string>

#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/text_style.hpp"

namespace foretrace::report {

class JsonWriter;

std::string to_text(const analysis::SummaryReport& report, const TextStyle& style = {});
/// An object that starts with "schema": 1.
std::string to_json(const analysis::SummaryReport& report);
void write_json(JsonWriter& json, const analysis::SummaryReport& report);

}  // namespace foretrace::report
