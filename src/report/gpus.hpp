#pragma once
// The same step on other GPUs, as text and JSON.

#include <string>

#include "foretrace/analysis/gpus.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::report {

std::string to_text(const analysis::GpusReport& report, const TextStyle& style);
std::string to_json(const analysis::GpusReport& report);

}  // namespace foretrace::report
