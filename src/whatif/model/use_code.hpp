#pragma once
// The line of PyTorch that switches on one use of a what-if, with the values of its parameters.

#include <string>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Empty where the line does not depend on the parameters: then it is the what-if's own. `training`: the step computes gradients.
std::string code_with_parameters(const Use& use, bool training);

}  // namespace foretrace::whatif
