#pragma once
#include <vector>

#include "foretrace/report/gpus.hpp"

namespace foretrace::report {

/// Fills `price_age`. Against the newest price there is, not against today: the same input gives the same answer.
void say_age(std::vector<GpuPrediction>& predictions);

}  // namespace foretrace::report
