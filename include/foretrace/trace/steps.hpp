#pragma once
// Steps: training iterations found in a trace, and how they were found.

#include <optional>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

enum class StepSource : std::uint8_t {
  kProfilerStep,  ///< ProfilerStep#N ranges
  kOptimizer,     ///< from one end of an Optimizer.step range to the next
  kRepetition,    ///< a sequence of kernels that repeats
  kWholeTrace,    ///< nothing repeats: the whole trace is one step
};
/// "ProfilerStep ranges", "optimizer ranges", …
std::string_view describe(StepSource source);

struct Step {
  std::string name;         ///< "ProfilerStep#4"; "step 0" when the file names none
  std::int64_t number = 0;  ///< 4
  Ns start = 0;
  Ns end = 0;
  LaneId lane;  ///< the thread that carries the range; invalid when none
  [[nodiscard]] Ns duration() const { return end - start; }
};

struct Steps {
  StepSource source = StepSource::kWholeTrace;
  std::vector<Step> steps;  ///< by start time

  /// The default step of a verb: the median by duration; of an even count the lower median.
  [[nodiscard]] std::size_t median() const;
  /// The step numbered `number`, or an error naming those there are.
  [[nodiscard]] Result<std::size_t> by_number(std::int64_t number) const;
};

/// Finds the steps of a trace. Empty only when the trace has no timed event at all.
Steps find_steps(const Trace& trace);

}  // namespace foretrace::trace
