#pragma once
// The strategy as a PyTorch module, for what the step does: a script that trains, or one that runs a model without training it.

#include <string>

#include "foretrace/graph/step_kind.hpp"
#include "foretrace/report/report.hpp"

namespace foretrace::report {

std::string script_for(const graph::StepNature& step, const OptimizeReport& report);

}  // namespace foretrace::report
