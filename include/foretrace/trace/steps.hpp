#pragma once
// Steps: training iterations (or batches of a serving engine) found in a trace, and how they were found.
//
//   Steps steps = find_steps(trace);                  // "ProfilerStep ranges", or whatever the trace offers
//   Steps mine = *steps_by(trace, "train_step");      // by the ranges of that name

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
  kAnnotation,    ///< ranges of an engine, a trainer, or by convention (src/trace/names/steps.csv)
  kByName,        ///< ranges the user named
};
/// "ProfilerStep ranges", "optimizer ranges", …
std::string_view describe(StepSource source);

struct Step {
  std::string name;         ///< "ProfilerStep#4"; "step 0" when the file names none
  std::int64_t number = 0;  ///< 4
  Ns start = 0;
  Ns end = 0;
  LaneId lane;  ///< the thread that carries the range; invalid when none
  /// Time between start and end in which the step waited for work that is not in the file; not part of its duration.
  Ns waited = 0;
  /// When that work was over: what the step launched before did not start earlier.
  Ns waited_until = 0;
  /// Of a step alone in its file: when its thread had done its last task. The step ends when its GPU work has, too.
  std::optional<Ns> thread_end;
  [[nodiscard]] Ns duration() const { return end - start - waited; }
};

struct Steps {
  StepSource source = StepSource::kWholeTrace;
  std::vector<Step> steps;  ///< by start time
  std::string marked_by;    ///< the ranges they were found by: "step[*] (SGLang: …)"; empty when none

  /// The default step of a verb: the median by duration; of an even count the lower median.
  [[nodiscard]] std::size_t median() const;
  /// The step numbered `number`, or an error naming those there are.
  [[nodiscard]] Result<std::size_t> by_number(std::int64_t number) const;
};

/// Finds the steps of a trace: by Trace::steps_by where it is set, else in the order of trust. Empty only when the trace has
/// no timed event at all.
Steps find_steps(const Trace& trace);

/// The steps by ranges named `name` (operations, user ranges, Python frames): exactly so, by a pattern with `*`, or but for
/// their numbers ("step" for "step 12"). An unknown name is an error that says which there are.
Result<Steps> steps_by(const Trace& trace, std::string_view name);

/// From now on find_steps(trace) goes by ranges of this name; an error where there are none. An empty name changes nothing.
Status mark_steps_by(Trace& trace, const std::string& name);

/// A range that could mark steps.
struct StepCandidate {
  std::string name;         ///< numbers as "%d": what --steps-by takes
  std::uint64_t count = 0;  ///< of ranges on the thread that has most
  Ns median = 0;            ///< of their lengths
  double gpu_share = 0;     ///< of the trace's GPU time, launched inside of them
};
/// Ranges in which at least half of the GPU's time was launched, and those the table of names knows; largest share first.
std::vector<StepCandidate> step_candidates(const Trace& trace);

}  // namespace foretrace::trace
