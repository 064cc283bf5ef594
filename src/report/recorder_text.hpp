#pragma once
// What the recorder stored next to a trace, for people.

#include <string>
#include <utility>
#include <vector>

namespace foretrace::report {

/// "6.03 ms a step without the profiler (15 steps, 5.81 to 6.65 ms); PyTorch 2.11.0, CUDA 13.0; …" from names and JSON values. Fields
/// that say nothing to people are left to JSON.
std::string recorder_text(const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace foretrace::report
