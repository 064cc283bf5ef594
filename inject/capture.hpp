#pragma once
// A program that calls cudaProfilerStart and cudaProfilerStop says which part of it is to be seen.

#include "records.hpp"

namespace foretrace::inject {

/// Keeps what began between the first start and the last stop (without one: to the end); everything where the program never
/// called start. What memory was held at the start stays, as one allocation for each device.
void keep_captured(Activities& activities);

}  // namespace foretrace::inject
