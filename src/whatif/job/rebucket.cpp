#include "whatif/job/rebucket.hpp"

#include <algorithm>
#include <cmath>

#include "ranks/collectives.hpp"
#include "trace/latencies.hpp"
#include "whatif/parallel/gradients.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {

namespace {

struct Reduction {
  std::uint32_t task;
  std::int64_t bytes;
};

// All-reduces of gradients, in the order in which they run.
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

/// A latency and a bandwidth that explain the recorded transfers best; no latency where they do not differ in size.
class Transfers {
 public:
  Transfers(const Graph& g, const std::vector<Reduction>& recorded) {
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
  [[nodiscard]] Ns time(std::int64_t bytes) const {
    return static_cast<Ns>(std::llround(latency_ + per_byte_ * static_cast<double>(bytes)));
  }

 private:
  double latency_ = 0, per_byte_ = 0;
};

}  // namespace

Status rebucket(Model& m, Draft& draft, std::int64_t bytes) {
  const Graph& g = m.graph;
  const std::vector<Reduction> recorded = reductions_of(m);
  if (recorded.empty()) return fail(ErrorCode::kDeclined, "the rank does not all-reduce its gradients");
  FORETRACE_TRY(const Gradients gradients, find_gradients(m));
  std::int64_t moved = 0;
  for (const Reduction& r : recorded) moved += r.bytes;
  const double per_gradient = static_cast<double>(moved) / static_cast<double>(gradients.bytes());
  constexpr double kOthers = 0.1;  // small all-reduces of norms and losses move far less
  if (std::abs(per_gradient - 1) > kOthers) {
    return fail(ErrorCode::kDeclined,
                "what the rank all-reduces is not its gradients, each once, in the type they have");
  }
  const BucketPlan plan = pytorch_buckets(gradients, bytes, bytes);
  const Transfers transfers(g, recorded);

  Selection removed, waiting;  // what waits for the recorded ones
  for (const Reduction& r : recorded) {
    removed.push_back(r.task);
    for (std::uint32_t d = g.dep_begin[r.task]; d < g.dep_begin[r.task + 1]; ++d) {
      if (g.kind[g.dep_to[d]] != TaskKind::kCollective) waiting.push_back(g.dep_to[d]);
    }
  }
  std::sort(removed.begin(), removed.end());
  std::sort(waiting.begin(), waiting.end());
  waiting.erase(std::unique(waiting.begin(), waiting.end()), waiting.end());
  std::uint32_t stream = recorded.back().task;
  for (std::size_t k = 0; k < plan.size(); ++k) {
    const Gradient& last = gradients.list[plan[k].gradients.back()];
    const Reduction& like = recorded[std::min(k, recorded.size() - 1)];
    const Place at = draft.insert({.name = std::string(g.task_name(like.task)),
                                   .cost = transfers.time(plan[k].bytes),
                                   .phase = Phase::kBackward,
                                   .kind = TaskKind::kCollective,
                                   .after = {last.cpu, stream},
                                   .cpu_cost = m.cpu_time(m.host.ddp.collective_us, Phase::kBackward),
                                   .origin = graph::Origin::kScaled,
                                   .event = g.event[like.task]});
    stream = at.gpu;
    const Ns start = m.latencies->collective_start;
    if (last.gpu != kNone) draft.depend(last.gpu, at.gpu, start, DependencyKind::kStreamWait);
    for (const std::uint32_t side : last.side) draft.depend(side, at.gpu, start, DependencyKind::kStreamWait);
    for (const std::uint32_t to : waiting) {
      draft.depend(at.gpu, to, m.latencies->stream_hand_over,
                   graph::is_gpu(g.kind[to]) ? DependencyKind::kStreamWait : DependencyKind::kSync);
    }
  }
  draft.remove(removed, Draft::kWithLaunch);
  m.buckets = plan.size();
  return {};
}

}  // namespace foretrace::whatif
