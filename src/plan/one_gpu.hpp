#pragma once
// The step of one GPU of a plan: with the plan's micro-batch, tensor, context and expert
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
  std::int64_t tp_apart = 1,
               cp_apart = 1;  ///< GPUs between neighbours; those that share experts are neighbours in cp and dp
  bool sequence = false, vocab = true, async = false, divide_keys = true;
  double imbalance = 1, capacity = 1;
  std::string kind, recompute, gpu;
  auto operator<=>(const Shape&) const = default;
};

struct OneGpu {
  Parts parts;
  whatif::Prediction prediction;  ///< of the step with these changes
  double pass_samples = 1;        ///< samples and positions of a pass, as a multiple of the traced step's
  hardware::Device device;
  Ns left_out = 0;       ///< of the step, in no part: its input, waits at its ends
  std::string declined;  ///< why there is nothing of the above
};

/// The changes, in the order of application. Gradients are summed once in a step, over all GPUs with the same parameters, by who puts the
/// plan together; `ep_reduces`: by the GPUs that share experts, and by nobody else.
Result<std::vector<whatif::Use>> changes_of(const Shape& shape, const Groups& groups,
                                            const whatif::NetworkChoice& network, bool ep_reduces = false);
/// The traced step, and the same with one block more; made once for all plans.
class Traced {
 public:
  /// Declined where no block repeats, or one more of them cannot be predicted.
  static Result<Traced> make(const analysis::Baseline& baseline);
  [[nodiscard]] OneGpu predict(const std::vector<whatif::Use>& changes) const;

 private:
  Traced(const analysis::Baseline& baseline, whatif::Use deeper, whatif::Model model)
      : baseline_(&baseline), one_more_(std::move(deeper)), deeper_(std::move(model)) {}

  const analysis::Baseline* baseline_;
  whatif::Use one_more_;
  whatif::Model deeper_;
};

}  // namespace foretrace::plan
