#pragma once
// The figures our recorder stored in the trace it made. Whether they can be true is not looked at here (measured_step.hpp).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::host {

/// The top-level key our recorder stores its figures under.
inline constexpr std::string_view kRecorderKey = "foretrace";

/// The figures the recorder stored, as a JSON object; empty when it did not make the trace.
std::string recorder_figures(const trace::Trace& trace);

/// The step without the profiler in ms.
std::optional<double> recorded_ms(const trace::Trace& trace);
/// Every step it timed without the profiler, in ms; empty where it kept none.
std::vector<double> recorded_steps(const trace::Trace& trace);
/// The allocator's peak of those steps.
std::optional<std::int64_t> recorded_peak(const trace::Trace& trace);

/// What the recorder timed on the CPU; nothing where it did not, or the figure is no time.
struct RecordedCpu {
  struct PhaseTimes {
    std::optional<double> ms;         ///< of the host, without the profiler
    std::optional<double> traced_ms;  ///< the same in the traced steps
    std::optional<double> behind_ms;  ///< how long the GPU still worked when the phase ended, without the profiler
  };
  std::array<PhaseTimes, 3> phases;     ///< forward (until backward begins), backward, update
  std::optional<double> probe_view_us;  ///< an operation that launches nothing, without the profiler
};
RecordedCpu recorded_cpu(const trace::Trace& trace);

}  // namespace foretrace::host
