#pragma once
// Plans as text, JSON and one HTML page: those of `scale --plan`, and what `plan` found.

#include <string>

#include "foretrace/report/report.hpp"
#include "plan/plan.hpp"

namespace foretrace::report {

std::string to_text(const plan::PlanReport& r, const TextStyle& style);
std::string to_json(const plan::PlanReport& r);
/// Stages over time, memory of each GPU, the search by sizes of tensor and pipeline parallel.
std::string to_page(const plan::PlanReport& r);

}  // namespace foretrace::report
