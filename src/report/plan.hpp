#pragma once
// Plans as text and JSON: those of `scale --plan`, and what `plan` found.

#include <string>

#include "foretrace/report/report.hpp"
#include "plan/plan.hpp"

namespace foretrace::report {

std::string to_text(const plan::PlanReport& r, const TextStyle& style);
std::string to_json(const plan::PlanReport& r);

}  // namespace foretrace::report
