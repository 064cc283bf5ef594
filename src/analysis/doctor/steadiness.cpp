// Whether the step that predictions start from is like the steps before and after it.

#include "analysis/steadiness.hpp"

#include <fmt/format.h>

#include <optional>

#include "analysis/doctor/checks.hpp"
#include "base/readable.hpp"

namespace foretrace::analysis {

std::optional<Finding> cold_step(const Facts& f) {
  if (!f.replay || f.replay->notes.startup.time() <= 0) return {};
  const graph::Startup& s = f.replay->notes.startup;
  if (!f.replay->cold_refusal.empty()) {
    return Finding{"cold_step", Weight::kBlocks, f.replay->cold_refusal,
                   "What the step takes once warm is unknown, and no change can be predicted from it.",
                   std::string(kRecordWarmSteps)};
  }
  return Finding{"cold_step", Weight::kCosts,
                 fmt::format("{} is a cold step: {} ms of it are start-up work", f.replay->step, format_ms(s.time())),
                 fmt::format("Taken out: {}. What is left, {} ms, is an estimate of the step once warm; work that is "
                             "slow the first time only may still be in it.",
                             parts_of(s), format_ms(f.replay->replayed)),
                 std::string(kRecordWarmSteps)};
}

std::optional<Finding> cold_steps_left_out(const Facts& f) {
  std::string names;
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < f.cold.size() && i < f.steps->steps.size(); ++i) {
    if (!f.cold[i]) continue;
    ++count;
    names += (names.empty() ? "" : ", ") + f.steps->steps[i].name;
  }
  if (count == 0 || count == f.cold.size()) return {};
  return Finding{"cold_steps",
                 Weight::kNote,
                 fmt::format("start-up work in {}", shorten_middle(names, 60)),
                 "Predictions start from the other steps.",
                 std::string(kRecordWarmSteps),
                 count};
}

std::optional<Finding> allocator(const Facts& f) {
  if (!f.replay || f.replay->notes.allocator <= 0) return {};
  return Finding{
      "allocator", Weight::kCosts,
      fmt::format("{} ms of {} are calls that allocate driver memory and free it again",
                  format_ms(f.replay->notes.allocator), f.replay->step),
      "The framework's allocator does not keep its memory. Each such call waits for the GPU, and other changes "
      "(compile, cuda-graph) are predicted with these calls in place.",
      std::string(kKeepMemory)};
}

}  // namespace foretrace::analysis
