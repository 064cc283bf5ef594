#pragma once
// --code-out: a PyTorch script that switches a strategy on.

#include "cli/verb.hpp"
#include "foretrace/analysis/baseline.hpp"

namespace foretrace::cli {

/// An error where a script is asked for and the step is not PyTorch's.
Status can_write_code(const Request& request, const analysis::Baseline& baseline);

}  // namespace foretrace::cli
