#pragma once
// The operations of a step, for the roofline.

#include <vector>

#include "foretrace/overview/overview.hpp"

namespace foretrace::overview {

std::vector<OperationWork> operations_of(const analysis::Baseline& baseline);

}  // namespace foretrace::overview
