#include "plan/replicas.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace foretrace::plan {

using hardware::Collective;

Replicas::Replicas(const Plan& plan, Groups& groups, double expert_share)
    : plan_(plan),
      groups_(groups),
      expert_share_(expert_share),
      replicas_(std::int64_t{plan.dp} * plan.cp),
      shard_(plan.shard > 0 ? plan.shard : replicas_) {}

Replicas::Ranks Replicas::common() const { return {replicas_, shard_, plan_.apart("cp")}; }

Replicas::Ranks Replicas::experts() const {
  // Neighbours hold different experts; a shard of fewer GPUs than there are sets of experts has each of them once.
  return {replicas_ / plan_.ep, shard_ / std::gcd(shard_, std::int64_t{plan_.ep}), plan_.apart("cp") * plan_.ep};
}

Held Replicas::held(double elements, double block_elements) const {
  const double experts = std::min(elements, expert_share_ * block_elements);
  return {elements - experts, experts};
}

double Replicas::kept(const Held& held, int stage) const {
  if (!divide() || plan_.zero < stage) return held.all();
  return held.common / static_cast<double>(common().shard) + held.experts / static_cast<double>(experts().shard);
}

Ns Replicas::cost(Collective kind, double bytes, std::int64_t ranks, std::int64_t apart) {
  const hardware::CollectiveCost c = groups_.cost(kind, bytes, ranks, apart);
  sigma_ = std::max(sigma_, c.sigma);
  if (ranks > 1) channels_ = std::max(channels_, c.channels);
  return c.ns;
}

Ns Replicas::reduce_over(const Ranks& r, double bytes) {
  if (plan_.zero == 0) return cost(Collective::kAllReduce, bytes, r.replicas, r.apart);
  return cost(Collective::kReduceScatter, bytes, r.shard, r.apart) +
         cost(Collective::kAllReduce, bytes / static_cast<double>(r.shard), r.replicas / r.shard, r.apart * r.shard);
}

// Equal calls, one behind the other: each waits for its own steps.
template <class Cost>
Ns Replicas::in_calls(double elements, double call, const Cost& cost) {
  const double calls = call > 0 ? std::max(1.0, std::round(elements / call)) : 1;
  return static_cast<Ns>(std::llround(calls * static_cast<double>(cost(elements / calls))));
}

Ns Replicas::reduction(const Held& held, double bytes, double call) {
  if (!reduce()) return 0;
  const auto over = [&](const Ranks& r, double elements) {
    return in_calls(elements, call, [&](double n) { return reduce_over(r, n * bytes); });
  };
  return over(common(), held.common) + over(experts(), held.experts);
}

Ns Replicas::gather(const Held& held, double bytes, double call) {
  if (!divide()) return 0;
  const auto over = [&](const Ranks& r, double elements) {
    return in_calls(elements, call,
                    [&](double n) { return cost(Collective::kAllGather, n * bytes, r.shard, r.apart); });
  };
  return over(common(), held.common) + over(experts(), held.experts);
}

}  // namespace foretrace::plan
