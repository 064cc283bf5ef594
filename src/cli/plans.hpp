#pragma once
// What `scale --plan` and `plan` share.

#include <string>
#include <vector>

#include "cli/verb.hpp"
#include "plan/plan.hpp"

namespace foretrace::cli {

/// --layers, --global-batch, --gpu, --usd-per-hour: the job that plans are of.
std::vector<Option> plan_model_options();
Result<plan::PlanOptions> plan_options(const Values& values);
/// Plans as text, each predicted.
Result<Answer> answer_plans(const Request& request, const std::vector<std::string>& plans);

}  // namespace foretrace::cli
