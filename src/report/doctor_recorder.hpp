#pragma once
// What our recorder stored in a trace, for doctor: its fields, and whether its measured step can be true.

#include <string>
#include <utility>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

/// The fields the recorder is known to write, in its order, each value as JSON. A file may claim to hold others; as with all
/// metadata, values of unknown keys are not shown.
std::vector<std::pair<std::string, std::string>> recorder_fields(const trace::Trace& trace);

/// For people: "measured_ms 71.6, measured_steps 20, …". Of a list of numbers its length and its ends.
std::string recorder_text(const std::vector<std::pair<std::string, std::string>>& fields);

}  // namespace foretrace::report
