// Schemes that divide what each worker keeps: ZeRO 1 (optimizer states) and ZeRO 2 (gradients too). Where parameters are divided as
// well: fully_sharded.cpp.

#include <algorithm>
#include <functional>
#include <vector>

#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

using hardware::Collective;

void share_update(Builder& b, double share) {
  const Graph& g = b.m.graph;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || g.phase[t] != Phase::kOptimizer) continue;
    const Ns whole = b.draft.cost(t);
    const Ns floor = std::min(whole, b.memory_ns(0));
    b.draft.set(t, std::max(floor, static_cast<Ns>(static_cast<double>(whole) * share)), graph::Origin::kScaled);
  }
}

void share_memory(Builder& b, double share, bool gradients) {
  if (!b.m.memory) return;
  const std::int64_t n = b.cluster.workers;
  memory::Curve& c = *b.m.memory;
  // What is there throughout: parameters first, the rest is the optimizer's.
  const std::int64_t states = std::max<std::int64_t>(0, c.start_bytes - b.gradients.bytes());
  c.start_bytes -= states - static_cast<std::int64_t>(static_cast<double>(states) * share);
  c.state_bytes = static_cast<std::int64_t>(static_cast<double>(c.state_bytes) * share);
  if (!gradients) return;
  for (memory::Block& block : c.blocks) {
    if (block.kind == memory::Kind::kGradient) block.bytes /= n;
  }
}

namespace {

// The last task of the update on the main stream and on its thread.
Place behind_update(const Builder& b) {
  const Graph& g = b.m.graph;
  Place at;
  const graph::GraphLane& stream = g.lanes[b.gradients.stream];
  for (std::uint32_t t = stream.begin; t < stream.end; ++t) {
    if (g.phase[t] == Phase::kOptimizer && g.launch[t].valid()) at = {g.launch[t].value, t};
  }
  return at;
}

// Owners update their share once all gradients are there. A step with several optimizers updates some parameters in between.
Status update_follows_backward(const Builder& b) {
  const Place update = behind_update(b);
  if (update.gpu == kNone || b.gradients.backward_gpu == kNone) return {};
  if (update.gpu > b.gradients.backward_gpu) return {};
  return fail(
      ErrorCode::kDeclined,
      "the step updates parameters before its last gradient is there (several optimizers?): who owns what cannot "
      "be determined");
}

// The part of all elements that the largest owner has: parameters stay whole, the largest go first, each to the owner with the least
// (ZeroRedundancyOptimizer).
double largest_owner(const Builder& b) {
  std::vector<std::int64_t> sizes;
  for (const Gradient& gradient : b.gradients.list) sizes.push_back(gradient.elements);
  std::sort(sizes.begin(), sizes.end(), std::greater<>());
  std::vector<std::int64_t> owners(
      static_cast<std::size_t>(std::min<std::int64_t>(b.cluster.workers, std::ssize(sizes))));
  if (owners.empty() || b.gradients.elements <= 0) return 1.0 / b.cluster.workers;
  for (const std::int64_t size : sizes) *std::min_element(owners.begin(), owners.end()) += size;
  return static_cast<double>(*std::max_element(owners.begin(), owners.end())) /
         static_cast<double>(b.gradients.elements);
}

// The updated parameters go to everybody; forward of the next step waits, so the step's end does.
void gather_parameters(Builder& b, const std::vector<double>& messages, Collective kind) {
  Place at = behind_update(b);
  if (at.cpu == kNone) return;
  std::uint32_t last = kNone;
  for (const double bytes : messages) {
    b.cpu(at, "gather call", b.ns(b.ddp.collective_us), Phase::kOptimizer);
    last = b.collective(b.lane(), kind, bytes, "updated parameters");
    b.start_behind(last, at);
  }
  const std::uint32_t done = b.kernel(at, "parameters in place", 0, b.ns(b.ddp.copy_back_us), Phase::kOptimizer);
  b.wait_for(done, last);
}

}  // namespace

Status apply_zero1(Builder& b) {
  FORETRACE_TRY_VOID(update_follows_backward(b));
  const double share = largest_owner(b);
  share_memory(b, share, false);  // before there are buckets, which are not divided
  FORETRACE_TRY_VOID(apply_ddp(b));
  share_update(b, share);
  // ZeroRedundancyOptimizer: each owner broadcasts each of its parameters.
  std::vector<double> messages;
  for (std::uint32_t i = 0; i < b.gradients.list.size(); ++i) {
    messages.push_back(static_cast<double>(b.gradients.bytes(i)));
  }
  gather_parameters(b, messages, Collective::kBroadcast);
  return {};
}

Status apply_zero2(Builder& b) {
  FORETRACE_TRY_VOID(update_follows_backward(b));
  Buckets buckets(b);
  buckets.reduce([&](const Bucket& bucket, Place& at, std::uint32_t launched) {
    b.cpu(at, "reduce-scatter call", b.ns(b.ddp.collective_us), Phase::kBackward);
    const std::uint32_t reduced = b.collective(b.lane(), Collective::kReduceScatter, static_cast<double>(bucket.bytes),
                                               "reduce-scatter of a bucket");
    b.start_behind(reduced, at);
    if (b.few_queues()) b.hold_side_streams(launched, b.first_of(reduced), 0);
    return reduced;
  });
  Place at = buckets.behind_backward();
  const std::uint32_t wait =
      b.kernel(at, "gradients' share in place", 2.0 * static_cast<double>(b.gradients.bytes()) / b.cluster.workers,
               b.ns(b.ddp.wait_us), Phase::kBackward);
  b.wait_for(wait, buckets.last_reduced());
  const double share = 1.0 / b.cluster.workers;
  share_update(b, share);
  share_memory(b, share, true);
  gather_parameters(b, {static_cast<double>(b.gradients.bytes())}, Collective::kAllGather);
  return {};
}

}  // namespace foretrace::whatif
