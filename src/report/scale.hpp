#pragma once
// The same step on N workers, as text and JSON.

#include <string>

#include "foretrace/analysis/gpus.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::report {

std::string to_text(const analysis::ScaleReport& report, const TextStyle& style);
std::string to_json(const analysis::ScaleReport& report);

}  // namespace foretrace::report
