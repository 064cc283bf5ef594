#pragma once
// What foretrace's recorder stored in a trace. Whether the figures are plausible is decided elsewhere (measured_step.hpp).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::host {

/// The top-level key of a trace that holds the recorder's figures.
inline constexpr std::string_view kRecorderKey = "foretrace";

/// Figures are missing where the recorder did not store them or they are not numbers.
struct RecorderFigures {
  std::optional<double> measured_ms;       ///< the step without the profiler
  std::vector<double> step_ms;             ///< every step timed without the profiler
  std::optional<std::int64_t> peak_bytes;  ///< the allocator's peak in those steps

  struct PhaseTimes {
    std::optional<double> ms;         ///< on the host, without the profiler
    std::optional<double> traced_ms;  ///< the same in the traced steps
    std::optional<double> behind_ms;  ///< how long the GPU still worked when the phase ended, without the profiler
  };
  std::array<PhaseTimes, 3> phases;     ///< forward (until backward begins), backward, update
  std::optional<double> probe_view_us;  ///< an operation that launches nothing, without the profiler
};
RecorderFigures recorder_figures(const trace::Trace& trace);

/// All of them as a JSON object; empty when the recorder did not make the trace.
std::string recorder_json(const trace::Trace& trace);

}  // namespace foretrace::host
