#pragma once
// What the GPUs of a plan have in common: the step of one of them with the plan's micro-batch, tensor, context and expert
// parallelism and recomputation, by the same what-ifs that `foretrace whatif` applies.

#include <optional>
#include <string>
#include <vector>

#include "plan/groups.hpp"
#include "plan/parts.hpp"
#include "plan/plan.hpp"

namespace foretrace::plan {

/// What of a plan one GPU sees: equal for many plans.
struct Shape {
  double batch = 1;  ///< a micro-batch over the traced batch
  int tp = 1, cp = 1, ep = 1;
  bool sequence = false, vocab = true;
  std::string kind, recompute, gpu;
  auto operator<=>(const Shape&) const = default;
};

struct OneGpu {
  Parts parts;
  whatif::Prediction prediction;  ///< of the step with these changes
  hardware::Device device;
  std::string declined;  ///< why there is nothing of the above
};

/// The changes, in the order of application.
Result<std::vector<whatif::Use>> changes_of(const Shape& shape, const Groups& groups,
                                            const whatif::NetworkChoice& network);
OneGpu predict_one(const analysis::Baseline& baseline, const std::vector<whatif::Use>& changes);

}  // namespace foretrace::plan
