#include "whatif/job/rebucket.hpp"

#include <algorithm>

#include "trace/latencies.hpp"
#include "whatif/job/reductions.hpp"

namespace foretrace::whatif {

Status rebucket(Model& m, Draft& draft, std::int64_t bytes, BucketOrder order) {
  const Graph& g = m.graph;
  const std::vector<Reduction> recorded = reductions_of(m);
  if (recorded.empty()) return fail(ErrorCode::kDeclined, "the rank does not all-reduce its gradients");
  FORETRACE_TRY(const Gradients gradients, find_gradients(m));
  FORETRACE_TRY_VOID(each_gradient_once(recorded, gradients));
  const BucketPlan plan = pytorch_buckets(gradients, bytes, bytes, order);
  const RecordedTransfers transfers(g, recorded);

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
  std::uint32_t latest = 0;  // buckets are reduced in their order: one that is ready early waits for those before it
  for (std::size_t k = 0; k < plan.size(); ++k) {
    for (const std::uint32_t i : plan[k].gradients) latest = std::max(latest, i);
    const Gradient& last = gradients.list[latest];
    const Reduction& like = recorded[std::min(k, recorded.size() - 1)];
    const Place at = draft.insert({.name = std::string(g.task_name(like.task)),
                                   .cost = transfers.time(static_cast<double>(plan[k].bytes)),
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
