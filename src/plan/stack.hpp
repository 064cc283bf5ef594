#pragma once
// Stacks of what-ifs in which `pp` divides the layers over GPUs: the shardings of the stack are a plan, its other changes are made in front
// of it. The answer is that of `foretrace scale --plan`, in the form of every other prediction.
//
//   predict(base, parse_uses({"tp:size=2", "pp:stages=4,microbatches=8"}).value())      // scale --plan tp=2,pp=4,microbatches=8

#include <optional>
#include <string>
#include <vector>

#include "plan/plan.hpp"

namespace foretrace::plan {

/// Whether a stack divides the layers over several GPUs.
bool has_stages(const std::vector<whatif::Use>& uses);
/// What a stack gives; without stages it is analysis::predict. `samples`: in the traced step; nothing: what the trace shows.
whatif::Prediction predict(const analysis::Baseline& baseline, const std::vector<whatif::Use>& uses,
                           std::optional<double> samples = {});

/// A stack as a plan.
struct Stack {
  std::string plan;  ///< "microbatches=8,pp=4,tp=2"
  PlanOptions options;
  std::vector<std::string> notes;  ///< what was assumed
};
/// Declined where the stack holds several networks, or something that no plan says.
Result<Stack> stack_of(const whatif::Model& model, const std::vector<whatif::Use>& uses);

}  // namespace foretrace::plan
