#pragma once
// The figures our recorder stored in the trace it made. Whether they can be true is not looked at here (measured_step.hpp).

#include <optional>
#include <string>
#include <string_view>

#include "foretrace/trace/trace.hpp"

namespace foretrace::analysis {

/// The top-level key our recorder stores its figures under.
inline constexpr std::string_view kRecorderKey = "foretrace";

/// The figures the recorder stored, as a JSON object; empty when it did not make the trace.
std::string recorder_figures(const trace::Trace& trace);

/// The step without the profiler in ms.
std::optional<double> recorded_ms(const trace::Trace& trace);

}  // namespace foretrace::analysis
