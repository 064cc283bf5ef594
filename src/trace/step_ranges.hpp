#pragma once
// Ranges that could be steps, and how much of the trace's work each set of them holds.

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// A row of src/trace/names/steps.csv.
struct StepPattern {
  int priority = 0;
  bool whole = true;  ///< the range holds the step; else the step ends with it
  std::string_view pattern, source;
};
const std::vector<StepPattern>& step_patterns();
/// The row that fits a name; nullptr when none does.
const StepPattern* step_pattern_of(std::string_view name);

/// When which work was given to the GPU: how much of it falls into a set of ranges. In a trace without GPU work, operations.
class WorkClock {
 public:
  explicit WorkClock(const Trace& trace);
  struct Sum {
    std::uint64_t tasks = 0;  ///< operations, calls and GPU work
    Ns time = 0;              ///< of the GPU; operations count as 1 where there is none
  };
  [[nodiscard]] Sum between(Ns begin, Ns end) const;
  [[nodiscard]] Sum all() const { return between(INT64_MIN, INT64_MAX); }

 private:
  std::vector<Ns> when_;
  std::vector<Sum> before_;  ///< sums over when_[0 .. i)
};

/// Ranges of one kind on one thread, by start, none inside another.
struct RangeSet {
  const StepPattern* pattern = nullptr;  ///< nullptr: picked by the user
  LaneId lane;
  std::vector<std::uint32_t> events;
};
/// The outermost of these events on the thread that has most of them (of equal ones the longer).
RangeSet outermost(const Trace& trace, const std::vector<std::uint32_t>& events, const StepPattern* pattern);
/// What the ranges hold together.
WorkClock::Sum held(const Trace& trace, const RangeSet& set, const WorkClock& clock);

/// Steps from ranges that hold them: from each to the next. A lone one runs from its first own task to the end of its GPU
/// work, less the time it waited for work that is not in the file.
std::vector<Step> steps_of_ranges(const Trace& trace, const RangeSet& set);
/// Steps from ranges that end them.
std::vector<Step> steps_between_ends(const Trace& trace, const RangeSet& set);
/// One range alone in its file.
Step lone_step(const Trace& trace, std::uint32_t range);

/// Kernels that differ from one step to the next (another algorithm, a logging step), of each step: one in so many.
inline constexpr std::size_t kSame = 50;
/// A "step" of fewer tasks is a layer, or a loop inside of one.
inline constexpr std::size_t kFewestTasks = 8;

/// The steps a sequence that repeats makes: places where one begins, the last place where one ends. Empty when nothing does.
///   repeated_parts({1,2,3,…,1,2,3,…}, rests) -> {0, 10, 20}
/// `rests` says for each place how long nothing ran before it: a step begins where that is longest.
std::vector<std::size_t> repeated_parts(const std::vector<std::uint32_t>& sequence, const std::vector<Ns>& rests);
/// The same where only the larger part of the sequence repeats, and not to the last kernel: the shortest repetition whose parts
/// `is_step` accepts. It is given the places where parts begin, and last where the last one ends.
using IsStep = std::function<bool(const std::vector<std::size_t>& begins)>;
std::vector<std::size_t> anchored_parts(const std::vector<std::uint32_t>& sequence, const std::vector<Ns>& rests,
                                        const IsStep& is_step);

}  // namespace foretrace::trace
