// Parameter servers, one beside each worker: a slice of every gradient is pushed to the server that owns it, added up there
// and pulled back. P3 cuts gradients into slices and sends those first that the next forward pass needs first.

#include <algorithm>
#include <cmath>

#include "whatif/parallel/builder.hpp"
#include "whatif/simulate_model.hpp"

namespace foretrace::whatif {

using hardware::Collective;

namespace {

// Push: every worker sends each server its slice and receives its own from all others; an all-to-all of the bucket. The
// server adds n slices up; pull is the way back.
struct Exchange {
  std::uint32_t push = kNoTask, sum = kNoTask, pull = kNoTask;
};

Exchange exchange(Builder& b, std::uint32_t lane, std::uint32_t server_lane, double bytes) {
  Exchange e;
  e.push = b.collective(lane, Collective::kAllToAll, bytes, "push");
  const double slice = bytes / b.cluster.workers;
  e.sum = b.draft.append(server_lane, TaskKind::kKernel, "server: sum",
                         b.memory_ns(slice * 3 * (b.cluster.workers - 1)), Phase::kBackward, {});
  e.pull = b.collective(lane, Collective::kAllToAll, bytes, "pull");
  b.wait_for(e.sum, e.push);
  b.wait_for(e.pull, e.sum);
  return e;
}

}  // namespace

Status apply_ps(Builder& b) {
  const BucketPlan plan = plan_of(b.gradients, b.strategy);
  broadcast_buffers(b);
  std::vector<Place> behind = gradients_into_buckets(b);
  const std::uint32_t server =
      b.draft.add_lane(graph::GraphLaneKind::kGpu, "server", b.m.graph.lanes[b.gradients.stream].device);
  std::vector<std::uint32_t> pulled;
  std::uint32_t last = 0;
  for (const Bucket& bucket : plan) {
    for (const std::uint32_t i : bucket.gradients) last = std::max(last, i);
    Place at = behind[last];
    b.cpu(at, "push and pull calls", 2 * b.costs.per_collective + b.costs.per_hook, Phase::kBackward);
    const Exchange e = exchange(b, b.lane(), server, static_cast<double>(bucket.bytes));
    b.start_behind(e.push, at);
    b.draft.depend(at.cpu, e.pull, 0, DependencyKind::kLaunch);
    behind[last].cpu = at.cpu;
    pulled.push_back(e.pull);
    // The server's sum waits on a stream that shares the main one's queue.
    if (b.few_queues()) b.hold_main_stream(b.gradients.list[last].cpu, e.sum);
  }
  copy_back(b, behind_backward(b, behind), plan, pulled);
  return {};
}

Status apply_p3(Builder& b) {
  const Graph& g = b.m.graph;
  // Slices of each gradient, pushed once it is there; priority: gradients that come last in backward are needed first.
  // Without priorities: whole gradients, first come, first served. The update keeps its place in the step, wherever it runs.
  const bool priorities = b.strategy.priorities;
  const auto slice_bytes = b.strategy.slice_mb * (1 << 20);
  const std::uint32_t lane = b.new_lane("network");
  const std::uint32_t server =
      b.draft.add_lane(graph::GraphLaneKind::kGpu, "server", g.lanes[b.gradients.stream].device);
  std::vector<std::uint32_t> pulled(b.gradients.list.size(), kNoTask);
  const auto count = static_cast<std::uint32_t>(b.gradients.list.size());
  for (std::uint32_t k = 0; k < count; ++k) {
    const std::uint32_t i = priorities ? count - 1 - k : k;
    const Gradient& gradient = b.gradients.list[i];
    const auto bytes = static_cast<double>(gradient.elements * b.gradients.bytes_per_element);
    const int slices = priorities ? static_cast<int>(std::clamp(std::ceil(bytes / slice_bytes), 1.0, 4096.0)) : 1;
    Place at{gradient.cpu, gradient.gpu};
    b.cpu(at, "P3: push calls", b.costs.per_gradient * slices, Phase::kBackward);
    for (int s = 0; s < slices; ++s) {
      const Exchange e = exchange(b, lane, server, bytes / slices);
      if (priorities) b.draft.schedule({e.push, e.pull}, static_cast<std::int32_t>(i));
      b.start_behind(e.push, at);
      for (const std::uint32_t side : gradient.side) b.draft.depend(side, e.push, 1'200, DependencyKind::kStreamWait);
      pulled[i] = e.pull;
    }
  }

  // The next step's forward pass, each layer behind its own parameters: the step is the distance of the two passes' ends.
  // What counts as forward behind the first gradient (a wrapper's own copies) is not part of that pass.
  Ns backward = INT64_MAX;
  for (std::uint32_t t = g.lanes[b.gradients.stream].begin; t < g.lanes[b.gradients.stream].end; ++t) {
    if (g.phase[t] != Phase::kBackward) continue;
    backward = g.launch[t].valid() ? g.measured[g.launch[t].index()] : g.measured[t];
    break;
  }
  Query forward;
  forward.where = [&](std::uint32_t t) {
    const bool launched = graph::is_gpu(g.kind[t]) && g.launch[t].valid();
    if ((launched ? g.measured[g.launch[t].index()] : g.measured[t]) >= backward) return false;
    return g.phase[t] == Phase::kForward && g.kind[t] != TaskKind::kWait && g.kind[t] != TaskKind::kBegin &&
           (graph::is_gpu(g.kind[t]) || g.lane[t] == g.main_lane);
  };
  const Selection pass = b.draft.select(forward);
  if (pass.empty()) return fail(ErrorCode::kDeclined, "the step shows no forward pass");
  const std::vector<std::uint32_t> copies = b.draft.clone(pass, {});
  std::uint32_t first_end = kNoTask;
  std::uint32_t second_end = kNoTask;
  std::vector<std::uint32_t> waits_for(g.layers.size(), kNoTask);  // the copy of the first kernel of each layer
  for (std::size_t k = 0; k < pass.size(); ++k) {
    const std::uint32_t t = pass[k];
    if (!graph::is_gpu(g.kind[t]) || g.lane[t] != b.gradients.stream) continue;
    first_end = t;
    second_end = copies[k];
    if (g.layer[t].valid() && waits_for[g.layer[t].index()] == kNoTask) waits_for[g.layer[t].index()] = copies[k];
  }
  if (first_end == kNoTask) return fail(ErrorCode::kDeclined, "the forward pass has no work on the main stream");
  std::uint32_t anywhere = kNoTask;  // gradients whose layer is unknown hold the first kernel
  for (std::size_t k = 0; k < pass.size() && anywhere == kNoTask; ++k) {
    if (graph::is_gpu(g.kind[pass[k]]) && g.lane[pass[k]] == b.gradients.stream) anywhere = copies[k];
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    const Gradient& gradient = b.gradients.list[i];
    const std::uint32_t from = gradient.side.empty() ? gradient.gpu : gradient.side.front();
    const bool known = from != kNoTask && g.layer[from].valid() && waits_for[g.layer[from].index()] != kNoTask;
    b.wait_for(known ? waits_for[g.layer[from].index()] : anywhere, pulled[i]);
  }
  // Marks between which the step is measured.
  const std::uint32_t marks = b.draft.add_lane(graph::GraphLaneKind::kNetwork, std::string(kPeriodLane));
  const std::uint32_t begin = b.draft.append(marks, TaskKind::kWait, "period begins", 0, Phase::kOther, {});
  const std::uint32_t end = b.draft.append(marks, TaskKind::kWait, "period ends", 0, Phase::kOther, {});
  b.draft.depend(first_end, begin, 0, DependencyKind::kSync);
  b.draft.depend(second_end, end, 0, DependencyKind::kSync);
  return {};
}

}  // namespace foretrace::whatif
