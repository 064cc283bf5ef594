#pragma once
// Reads predictions of plans from the JSON that plan.hpp writes: answers of other processes.

#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "plan/plan.hpp"

namespace foretrace::report {

/// The "predictions" of `scale --plan`, but for the actions of pipelines. An answer that is an error is that error.
Result<std::vector<plan::PlanPrediction>> read_plans(std::string_view json);

}  // namespace foretrace::report
