// All buckets at once. As long as reductions run one after another and delay nothing but the end of the step, the best plan
// up to gradient j is the best plan up to some i and one bucket from there on:
//   end(j) = min over i of  max(end(i), ready(j)) + sync(i+1 .. j)
// Where they delay more than that (a CPU that enqueues them), the other moves go on from here.

#include <algorithm>
#include <limits>

#include "search/moves/plan_move.hpp"

namespace foretrace::search {

namespace {

void propose(const PlanView& v, std::vector<Edits>& out) {
  const TensorProblem& p = v.problem;
  const std::size_t n = p.tensors.size();
  if (!v.options.assign || n == 0) return;
  struct Best {
    Ns end = std::numeric_limits<Ns>::max();
    std::uint32_t buckets = 0, from = 0;
    int parts = 1;
  };
  std::vector<Best> best(n + 1);
  best[0] = {0, 0, 0, 1};
  std::vector<Ns> ready(n);
  for (std::size_t j = 0; j < n; ++j) ready[j] = v.now.ready(p.tensors[j].collective);
  for (std::size_t j = 1; j < n; ++j) ready[j] = std::max(ready[j], ready[j - 1]);
  const auto may_end = [&](std::size_t j) {  // a border behind tensor j
    return j + 1 == n || !v.options.coarsened || p.tensors[j].unit != p.tensors[j + 1].unit;
  };
  for (std::size_t j = 0; j < n; ++j) {
    if (!may_end(j)) continue;
    Best& b = best[j + 1];
    for (std::size_t i = j + 1; i-- > 0;) {
      if (i > 0 && !may_end(i - 1)) continue;
      const Ns begin = std::max(best[i].end, ready[j]);
      if (begin >= b.end) continue;
      for (const int k : p.parts) {
        const Ns end = begin + v.now.sync(v.now.bytes(i, j), k);
        const std::uint32_t buckets = best[i].buckets + 1;
        if (end < b.end || (end == b.end && buckets < b.buckets)) b = {end, buckets, static_cast<std::uint32_t>(i), k};
      }
    }
  }
  Edits edits;
  for (std::size_t i = 1; i < n; ++i) edits.push_back({Edit::kJoin, static_cast<std::uint32_t>(i), 1});
  for (std::size_t j = n; j > 0; j = best[j].from) {
    edits.push_back({Edit::kParts, static_cast<std::uint32_t>(j - 1), static_cast<std::uint8_t>(best[j].parts)});
    if (best[j].from > 0) edits.push_back({Edit::kJoin, best[j].from, 0});
  }
  out.push_back(std::move(edits));
}

}  // namespace

PlanMove assign_buckets_move() {
  return {"assign buckets", "all gradients are divided into new buckets, for the earliest end of the last reduction",
          "a bucket is memory: the largest one is held in addition to the gradients", propose};
}

}  // namespace foretrace::search
