#include <algorithm>

#include "search/moves/plan_move.hpp"

namespace foretrace::search {

const std::vector<PlanMove>& plan_moves() {
  static const std::vector<PlanMove> kAll = {assign_buckets_move(), fuse_tensors_move(), fuse_operations_move(),
                                             partition_tensors_move()};
  return kAll;
}

std::uint32_t PlanView::first_of_bucket(std::uint32_t i) const {
  while (i > 0 && plan.joined_with_previous[i] != 0) --i;
  return i;
}

std::uint32_t PlanView::last_of_bucket(std::uint32_t i) const {
  while (i + 1 < problem.tensors.size() && plan.joined_with_previous[i + 1] != 0) ++i;
  return i;
}

void apply(const TensorProblem& p, const TensorOptions& options, const Edits& edits, TensorPlan& plan) {
  for (const Edit& e : edits) {
    if (e.what == Edit::kParts) {
      plan.parts[e.index] = e.value;
      continue;
    }
    const bool fuse = e.what == Edit::kFuse;
    std::vector<std::uint8_t>& bits = fuse ? plan.fused_with_previous : plan.joined_with_previous;
    const auto twin = [&](std::size_t i) { return fuse ? p.operations[i].twin : p.tensors[i].twin; };
    bits[e.index] = e.value;
    if (!options.symmetric || twin(e.index) == kNone || edits.size() > 2) continue;
    for (std::size_t i = 0; i < bits.size(); ++i) {
      if (twin(i) == twin(e.index)) bits[i] = e.value;
    }
  }
  if (!plan.fused_with_previous.empty()) plan.fused_with_previous[0] = 0;
  if (!plan.joined_with_previous.empty()) plan.joined_with_previous[0] = 0;
  if (options.coarsened) {
    for (std::size_t i = 1; i < p.tensors.size(); ++i) {
      if (p.tensors[i].unit == p.tensors[i - 1].unit) plan.joined_with_previous[i] = 1;
    }
  }
}

}  // namespace foretrace::search
