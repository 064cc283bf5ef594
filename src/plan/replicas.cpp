#include "plan/replicas.hpp"

#include <algorithm>
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
  return c.ns;
}

Ns Replicas::reduce_over(const Ranks& r, double bytes) {
  if (plan_.zero == 0) return cost(Collective::kAllReduce, bytes, r.replicas, r.apart);
  return cost(Collective::kReduceScatter, bytes, r.shard, r.apart) +
         cost(Collective::kAllReduce, bytes / static_cast<double>(r.shard), r.replicas / r.shard, r.apart * r.shard);
}

Ns Replicas::reduction(const Held& held, double bytes) {
  if (!reduce()) return 0;
  return reduce_over(common(), held.common * bytes) + reduce_over(experts(), held.experts * bytes);
}

Ns Replicas::gather(const Held& held, double bytes) {
  if (!divide()) return 0;
  const auto over = [&](const Ranks& r, double elements) {
    return cost(Collective::kAllGather, elements * bytes, r.shard, r.apart);
  };
  return over(common(), held.common) + over(experts(), held.experts);
}

}  // namespace foretrace::plan
