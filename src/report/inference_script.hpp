#pragma once
// The strategy as a PyTorch module, for what the step does: a script that trains, or one that runs a model without training it.

#include <string>

#include "foretrace/report/report.hpp"
#include "graph/step_kind.hpp"

namespace foretrace::report {

std::string script_for(const graph::StepNature& step, const OptimizeReport& report);

}  // namespace foretrace::report
