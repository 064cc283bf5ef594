#pragma once
#include <vector>

#include "analysis/gpus.hpp"

namespace foretrace::analysis {

/// Fills `price_age`. Against the newest price there is, not against today: the same input gives the same answer.
void say_age(std::vector<GpuPrediction>& predictions);

}  // namespace foretrace::analysis
