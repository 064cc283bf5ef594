// One size for all buckets, as DistributedDataParallel takes it (bucket_cap_mb).

#include <algorithm>
#include <cstdlib>

#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  if (!v.strategy.communication) return;
  const std::vector<double> sizes = v.bucket_sizes.empty() ? usual_bucket_sizes() : v.bucket_sizes;
  const Communication& now = *v.strategy.communication;
  const bool untouched = now.first_bucket_mb.has_value() || !now.buckets.empty();  // PyTorch's own, or a plan
  const auto at = std::lower_bound(sizes.begin(), sizes.end(), now.bucket_mb) - sizes.begin();
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const double mb = sizes[i];
    // All of them once, then the neighbours of the one in use.
    if (!untouched && std::abs(static_cast<std::ptrdiff_t>(i) - at) > 1) continue;
    Communication changed = now;
    changed.buckets.clear();
    changed.bucket_mb = mb;
    changed.first_bucket_mb.reset();
    out.push_back(v.strategy);
    out.back().communication = std::move(changed);
  }
}

}  // namespace

// 1,000 MiB hold all gradients of a model of 250 million parameters.
const std::vector<double>& usual_bucket_sizes() {
  static const std::vector<double> kSizes = {1, 2, 5, 10, 15, 25, 35, 50, 75, 100, 200, 400, 1000};
  return kSizes;
}

StrategyMove bucket_size_move() {
  return {"size of buckets",
          "gradients are reduced in buckets of another size",
          "a bucket is memory: gradients are held twice unless they are views of it",
          Attacks::kCommunication,
          "bucket",
          propose};
}

}  // namespace foretrace::search
