#include <algorithm>

#include "search/moves/plan_move.hpp"

namespace foretrace::search {

namespace {

void propose(const PlanView& v, std::vector<Edits>& out) {
  const TensorProblem& p = v.problem;
  for (const std::uint32_t n : v.operations) {
    if (v.plan.fused_with_previous[n] != 0) {
      out.push_back({{Edit::kFuse, n, 0}});
      continue;
    }
    if (n == 0) continue;
    const std::optional<Ns> both = p.fused(n - 1, n);
    if (!both) continue;
    const Ns saved = p.graph->cost[p.operations[n].task] + p.graph->cost[p.operations[n - 1].task] - *both;
    // T1: fusing delays the reduction of the earlier operation's gradient; what it saves must cover that.
    Ns delayed = 0;
    std::uint32_t joined = kNone;
    for (std::uint32_t t = 1; t < p.tensors.size(); ++t) {
      if (p.tensors[t - 1].operation == n - 1) delayed = std::max(delayed, v.now.sync(p.tensors[t - 1].bytes, 1));
      if (p.tensors[t - 1].operation == n - 1 && p.tensors[t].operation == n) joined = t;
    }
    if (delayed <= saved) out.push_back({{Edit::kFuse, n, 1}});
    // T3: together with the fusion of their gradients it is never worse than that fusion alone.
    if (joined != kNone) out.push_back({{Edit::kFuse, n, 1}, {Edit::kJoin, joined, 1}});
    if (delayed > saved && saved > 0) out.push_back({{Edit::kFuse, n, 1}});  // T1 speaks of two operations alone
  }
}

}  // namespace

PlanMove fuse_operations_move() {
  return {"fuse operations", "two neighbouring operations become one kernel",
          "numerics change in the last bits; hooks between the two no longer see the value", propose};
}

}  // namespace foretrace::search
