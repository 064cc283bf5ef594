#pragma once
// What our recorder stored in a trace, for doctor: its fields, and whether its measured step can be true.

#include <string>
#include <utility>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::analysis {

/// The fields the recorder is known to write, in its order, each value as JSON. A file may claim to hold others; as with all
/// metadata, values of unknown keys are not shown.
std::vector<std::pair<std::string, std::string>> recorder_fields(const trace::Trace& trace);

}  // namespace foretrace::analysis
