// DistributedDataParallel: every gradient is copied into its bucket, a full bucket is reduced on a stream of its own while
// backward goes on, and before the update the reduced gradients are copied back.

#include <algorithm>

#include "trace/latencies.hpp"
#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

using hardware::Collective;

void broadcast_buffers(Builder& b) {
  if (b.communicates()) return;
  const auto [count, bytes] = b.buffers();
  Place at = b.before_forward();
  if (at.cpu == kNone) return;
  b.cpu(at, "DDP: forward", b.costs.around_forward, Phase::kForward);
  if (count == 0) return;
  b.cpu(at, "DDP: flatten and broadcast buffers", b.costs.buffers_fixed, Phase::kForward);
  const std::uint32_t sent = b.collective(b.lane(), Collective::kBroadcast, bytes, "broadcast of buffers");
  b.start_behind(sent, {at.cpu, kNone});
  if (at.gpu == kNone) {
    b.cpu(at, "DDP: copy buffers back", b.costs.per_buffer * count, Phase::kForward);
    return;
  }
  const std::uint32_t copies =
      b.kernel(at, "DDP: copy buffers back", 2 * bytes, b.costs.per_buffer, Phase::kForward, count);
  b.wait_for(copies, sent);
}

std::vector<Place> gradients_into_buckets(Builder& b) {
  const Ns join = trace::default_latencies().kernel_gap;  // from a side stream's end to the next kernel of the main one
  const Gradients& gradients = b.gradients;
  std::vector<Place> behind(gradients.list.size());
  for (std::size_t i = 0; i < gradients.list.size(); ++i) {
    const Gradient& gradient = gradients.list[i];
    Place at{gradient.cpu, gradient.gpu};
    behind[i] = at;
    if (b.communicates()) continue;
    const double bytes = 2.0 * static_cast<double>(gradient.elements * gradients.bytes_per_element);
    const std::uint32_t copy = b.kernel(at, "DDP: gradient into bucket", bytes, b.costs.per_gradient, Phase::kBackward);
    for (const std::uint32_t side : gradient.side) b.draft.depend(side, copy, join, DependencyKind::kStreamWait);
    behind[i] = at;
  }
  return behind;
}

void copy_back(Builder& b, Place at, const BucketPlan& plan, const std::vector<std::uint32_t>& done) {
  if (b.communicates()) {  // the trace has the copies
    for (const std::uint32_t task : done) {
      b.wait_for(b.kernel(at, "wait for a bucket", 0, 0, Phase::kBackward), task);
    }
    return;
  }
  const Gradients& gradients = b.gradients;
  for (std::size_t k = 0; k < plan.size(); ++k) {
    b.cpu(at, "DDP: wait for a bucket", b.costs.per_wait, Phase::kBackward);
    bool first = true;
    for (const std::uint32_t i : plan[k].gradients) {
      const double bytes = 2.0 * static_cast<double>(gradients.list[i].elements * gradients.bytes_per_element);
      const std::uint32_t copy =
          b.kernel(at, "DDP: gradient out of bucket", bytes, b.costs.per_copy_back, Phase::kBackward);
      if (first) b.wait_for(copy, done[k]);
      first = false;
    }
  }
}

Place behind_backward(Builder& b, const std::vector<Place>& behind) {
  const Gradients& gradients = b.gradients;
  Place at{gradients.backward_cpu, gradients.backward_gpu};
  if (gradients.list.back().gpu == gradients.backward_gpu) at.gpu = behind.back().gpu;
  if (gradients.list.back().cpu == gradients.backward_cpu) at.cpu = behind.back().cpu;
  return at;
}

namespace {

// The collectives of one bucket, behind the copy of its last gradient; the last of them, and what decompresses it.
struct Reduced {
  std::uint32_t collective = kNone;
  std::uint32_t decompressed = kNone;
};

Reduced reduce_bucket(Builder& b, const Bucket& bucket, Place& at, std::uint32_t& hook_lane) {
  const Compressed c = compress(b, bucket);
  Reduced r;
  const bool hook = b.how.compression != Compression::kNone;
  const auto small_kernel = [&](const char* name, double bytes, int count) {
    if (count > 0) b.kernel(at, name, bytes, b.costs.per_copy_back, Phase::kBackward, count);
  };
  if (hook) b.cpu(at, "DDP: communication hook", b.costs.per_hook + c.cpu, Phase::kBackward);
  small_kernel("compress", c.before_bytes, c.before_kernels);
  if (c.waits) b.sync(at, "the hook waits for the GPU");
  // What runs behind a collective runs on streams of the hook's own.
  std::uint32_t previous = kNone;
  for (std::size_t i = 0; i < c.messages.size(); ++i) {
    b.cpu(at, "DDP: all-reduce call", b.costs.per_collective, Phase::kBackward);
    const std::uint32_t task = b.collective(b.lane(), c.kind, c.messages[i], b.cluster.workers,
                                            hook ? "compressed gradients" : "all-reduce of a bucket", c.slower);
    b.start_behind(task, at);
    if (previous != kNone) b.wait_for(task, previous);
    r.collective = task;
    const bool last = i + 1 == c.messages.size();
    const int kernels = last ? c.behind_kernels : c.between_kernels;
    if (kernels == 0) continue;
    if (hook_lane == kNone)
      hook_lane = b.draft.add_lane(graph::GraphLaneKind::kGpu, "communication hook",
                                   b.m.graph.lanes[b.gradients.stream].device);
    b.cpu(at, "DDP: hook's kernels", b.costs.per_copy_back * kernels, Phase::kBackward);
    const double bytes = last ? c.behind_bytes : c.between_bytes;
    const std::uint32_t work =
        b.draft.append(hook_lane, TaskKind::kKernel, last ? "decompress" : "compress",
                       b.memory_ns(bytes) + (kernels - 1) * b.memory_ns(0), Phase::kBackward, {});
    b.wait_for(work, task);
    b.draft.depend(at.cpu, work, 0, DependencyKind::kLaunch);
    previous = work;
    if (last) r.decompressed = work;
  }
  return r;
}

}  // namespace

Status apply_ddp(Builder& b) {
  const Gradients& gradients = b.gradients;
  const BucketPlan plan = plan_of(gradients, b.how);
  broadcast_buffers(b);
  std::vector<Place> behind = gradients_into_buckets(b);
  if (b.m.memory) b.m.memory->start_bytes += gradients.bytes();  // the buckets stay

  // A bucket is reduced once it is full, never before the one in front of it.
  std::vector<Reduced> reduced;
  std::uint32_t last = 0;
  std::uint32_t hook_lane = kNone;
  for (const Bucket& bucket : plan) {
    for (const std::uint32_t i : bucket.gradients) last = std::max(last, i);
    Place at = behind[last];
    reduced.push_back(reduce_bucket(b, bucket, at, hook_lane));
    behind[last] = at;
    if (!b.few_queues()) continue;
    // Whatever shares a queue with a waiting task waits too: cuDNN's streams behind the collective, the main stream behind
    // what the hook put on a stream of its own.
    const std::uint32_t launched = gradients.list[last].cpu;
    b.hold_side_streams(launched, reduced.back().collective);
    if (reduced.back().decompressed != kNone) b.hold_main_stream(launched, reduced.back().decompressed);
  }

  // When backward is over: wait for each bucket, copy it back.
  std::vector<std::uint32_t> done;
  for (const Reduced& r : reduced) done.push_back(r.decompressed != kNone ? r.decompressed : r.collective);
  copy_back(b, behind_backward(b, behind), plan, done);
  return {};
}

}  // namespace foretrace::whatif
