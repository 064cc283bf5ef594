#include <algorithm>

#include "search/moves/plan_move.hpp"

namespace foretrace::search {

namespace {

void propose(const PlanView& v, std::vector<Edits>& out) {
  const TensorProblem& p = v.problem;
  std::uint32_t done = kNone;
  for (const std::uint32_t n : v.tensors) {
    const std::uint32_t first = v.first_of_bucket(n);
    const std::uint32_t last = v.last_of_bucket(n);
    if (last == done) continue;
    done = last;
    if (first > 0) {
      const std::uint32_t before = v.first_of_bucket(first - 1);
      // T2: joined, the earlier reduction starts only when this one's gradients are there; that pays when it would not have
      // ended before then anyway.
      const Ns ends = v.now.end(p.tensors[first - 1].collective);
      const Ns both = v.now.sync(v.now.bytes(before, last), 1);
      const Ns alone = v.now.sync(v.now.bytes(first, last), 1);
      const bool pays = ends > v.now.ready(p.tensors[last].collective) + both - alone;
      if (pays) {
        const std::uint32_t op = p.tensors[first].operation;
        if (op != kNone && op > 0 && p.tensors[first - 1].operation == op - 1 && p.fused(op - 1, op)) {
          out.push_back({{Edit::kJoin, first, 1}, {Edit::kFuse, op, 1}});  // T3
        }
      }
      out.push_back({{Edit::kJoin, first, 1}});
      // The border between the two one gradient earlier or later.
      if (first > before + 1) out.push_back({{Edit::kJoin, first, 1}, {Edit::kJoin, first - 1, 0}});
      if (last > first) out.push_back({{Edit::kJoin, first, 1}, {Edit::kJoin, first + 1, 0}});
    }
    if (last == first) continue;
    // And back: where the bucket waits for its last gradients, the first ones could have gone already.
    for (std::uint32_t i = first + 1; i <= last; ++i) out.push_back({{Edit::kJoin, i, 0}});
  }
}

}  // namespace

PlanMove fuse_tensors_move() {
  return {"fuse tensors", "gradients of neighbouring buckets are reduced by one call, or one bucket by two",
          "a bucket is memory: the largest one is held in addition to the gradients", propose};
}

}  // namespace foretrace::search
