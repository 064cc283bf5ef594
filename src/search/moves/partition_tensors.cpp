#include "search/moves/plan_move.hpp"

namespace foretrace::search {

namespace {

void propose(const PlanView& v, std::vector<Edits>& out) {
  std::uint32_t done = kNone;
  for (const std::uint32_t n : v.tensors) {
    const std::uint32_t last = v.last_of_bucket(n);
    if (last == done) continue;
    done = last;
    for (const int k : v.problem.parts) {
      if (k != v.plan.parts[last]) out.push_back({{Edit::kParts, last, static_cast<std::uint8_t>(k)}});
    }
  }
}

}  // namespace

PlanMove partition_tensors_move() {
  return {"partition tensors", "a bucket is reduced in several parts, one after another",
          "each part pays the latency of a call", propose};
}

}  // namespace foretrace::search
