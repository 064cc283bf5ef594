#pragma once
// The step without the profiler as somebody measured it: as told, else as the recorder stored it in the trace. What cannot be
// true is refused (whatif/measured_step.hpp): when told, as an error; when stored, the figure is left alone and said so.

#include <optional>
#include <string>

#include "foretrace/base/result.hpp"
#include "foretrace/graph/graph.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::report {

class JsonWriter;

/// The top-level key our recorder stores its figures under.
inline constexpr std::string_view kRecorderKey = "foretrace";

/// The figures the recorder stored, as a JSON object; empty when it did not make the trace.
std::string recorder_figures(const trace::Trace& trace);

/// The step without the profiler in ms, as the recorder stored it; whether it can be true is not looked at.
std::optional<double> recorded_ms(const trace::Trace& trace);

struct Measured {
  std::optional<Ns> step;
  bool recorded = false;  ///< `step` is the recorder's
  std::string refused;    ///< why the recorder's figure is not used; empty when it is, or there is none
};
/// `told`: what the user says, in ms.
Result<Measured> measured_step(const trace::Trace& trace, const graph::Graph& graph, std::optional<double> told);

/// The member "measured_refused", where there is such a reason.
void write_refused(JsonWriter& json, const std::string& why);

}  // namespace foretrace::report
