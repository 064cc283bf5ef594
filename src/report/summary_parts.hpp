#pragma once
// The parts of a summary as text.

#include "foretrace/analysis/summary.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::report {

/// The first lines, up to what the profiler made of the step.
std::string headline_text(const analysis::SummaryReport& report, const TextStyle& style);
/// What the profiler made of the step, in one line.
std::string profiler_line(const analysis::SummaryReport& report);
/// The simulation's part of the report, as text and as members of its JSON object.
std::string simulated_text(const analysis::SummaryReport& report, const TextStyle& style);
void write_simulated(JsonWriter& json, const analysis::SummaryReport& report);

}  // namespace foretrace::report
