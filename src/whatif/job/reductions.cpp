#include "whatif/job/reductions.hpp"

#include <algorithm>
#include <cmath>

#include "base/notable.hpp"
#include "ranks/collectives.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {

std::vector<Reduction> reductions_of(const Model& m) {
  std::vector<Reduction> out;
  for (std::uint32_t t = 0; t < m.graph.size(); ++t) {
    if (m.graph.kind[t] != TaskKind::kCollective || !m.graph.event[t].valid() || moves_samples(m, t)) continue;
    const ranks::RecordedCollective what = ranks::recorded_collective(*m.trace, m.graph.event[t].value);
    if (what.kind == ranks::CollectiveKind::kAllReduce && what.bytes > 0) out.push_back({t, what.bytes});
  }
  std::stable_sort(out.begin(), out.end(), [&](const Reduction& a, const Reduction& b) {
    return m.graph.measured[a.task] < m.graph.measured[b.task];
  });
  return out;
}

Status each_gradient_once(const std::vector<Reduction>& recorded, const Gradients& gradients) {
  if (recorded.empty()) return fail(ErrorCode::kDeclined, "the rank does not all-reduce its gradients");
  std::int64_t moved = 0;
  for (const Reduction& r : recorded) moved += r.bytes;
  const double per_gradient = static_cast<double>(moved) / static_cast<double>(gradients.bytes());
  // All-reduces of norms, losses and flags are no notable part of what is moved.
  if (std::abs(per_gradient - 1) > kNotableShare) {
    return fail(ErrorCode::kDeclined,
                "what the rank all-reduces is not its gradients, each once, in the type they have");
  }
  return {};
}

RecordedTransfers::RecordedTransfers(const graph::Graph& g, const std::vector<Reduction>& recorded) {
  double n = 0, x = 0, y = 0, xx = 0, xy = 0;
  for (const Reduction& r : recorded) {
    const auto bytes = static_cast<double>(r.bytes);
    const auto ns = static_cast<double>(g.cost[r.task]);
    n += 1;
    x += bytes;
    y += ns;
    xx += bytes * bytes;
    xy += bytes * ns;
  }
  const double spread = xx - x * x / n;
  per_byte_ = spread > 0 ? std::max(0.0, (xy - x * y / n) / spread) : y / x;
  latency_ = (y - per_byte_ * x) / n;
  if (latency_ >= 0) return;
  latency_ = 0;
  per_byte_ = y / x;
}

Ns RecordedTransfers::time(double bytes) const { return static_cast<Ns>(std::llround(latency_ + per_byte_ * bytes)); }

}  // namespace foretrace::whatif
