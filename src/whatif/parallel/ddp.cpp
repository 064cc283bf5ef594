// DistributedDataParallel: every gradient is copied into its bucket, a full bucket is reduced on a stream of its own while
// backward goes on, and before the update the reduced gradients are copied back.

#include <algorithm>

#include "trace/latencies.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {

using hardware::Collective;

Buckets::Buckets(Builder& builder) : b_(builder), plan_(plan_of(builder.gradients, builder.how)) {
  broadcast_buffers();
  copy_in();
}

void Buckets::broadcast_buffers() {
  if (b_.communicates()) return;
  const auto [count, bytes] = b_.buffers();
  const auto forward = [&](double us) { return b_.ns(us, host::CpuPhase::kForward); };
  Place at = b_.before_forward();
  if (at.cpu == kNone) return;
  b_.cpu(at, "DDP: forward", forward(b_.ddp.forward_us), Phase::kForward);
  if (count == 0) return;
  b_.cpu(at, "DDP: flatten and broadcast buffers", forward(b_.ddp.buffers_us), Phase::kForward);
  const std::uint32_t sent = b_.collective(b_.lane(), Collective::kBroadcast, bytes, "broadcast of buffers");
  b_.start_behind(sent, {at.cpu, kNone});
  const Ns each = forward(b_.ddp.buffer_us);
  if (at.gpu == kNone) {
    b_.cpu(at, "DDP: copy buffers back", each * count, Phase::kForward);
    return;
  }
  b_.wait_for(b_.kernel(at, "DDP: copy buffers back", 2 * bytes, each, Phase::kForward, count), sent);
}

void Buckets::copy_in() {
  const Ns join = b_.m.latencies->kernel_gap;  // from a side stream's end to the next kernel of the main one
  for (std::uint32_t i = 0; i < b_.gradients.list.size(); ++i) {
    const Gradient& gradient = b_.gradients.list[i];
    Place& at = behind_.emplace_back(Place{gradient.cpu, gradient.gpu});
    if (b_.communicates()) continue;
    const double bytes = 2.0 * static_cast<double>(b_.gradients.bytes(i));
    const std::uint32_t copy =
        b_.kernel(at, "DDP: gradient into bucket", bytes, b_.ns(b_.ddp.gradient_us), Phase::kBackward);
    for (const std::uint32_t side : gradient.side) b_.draft.depend(side, copy, join, DependencyKind::kStreamWait);
  }
}

void Buckets::reduce(const Reduce& reduce) {
  std::uint32_t last = 0;
  for (const Bucket& bucket : plan_) {
    for (const std::uint32_t i : bucket.gradients) last = std::max(last, i);
    done_.push_back(reduce(bucket, behind_[last], b_.gradients.list[last].cpu));
  }
}

void Buckets::copy_back() {
  Place at = behind_backward();
  if (b_.communicates()) {  // the trace has the copies
    for (const std::uint32_t task : done_) {
      b_.wait_for(b_.kernel(at, "wait for a bucket", 0, 0, Phase::kBackward), task);
    }
    return;
  }
  for (std::size_t k = 0; k < plan_.size(); ++k) {
    b_.cpu(at, "DDP: wait for a bucket", b_.ns(b_.ddp.wait_us), Phase::kBackward);
    for (const std::uint32_t i : plan_[k].gradients) {
      const double bytes = 2.0 * static_cast<double>(b_.gradients.bytes(i));
      const std::uint32_t copy =
          b_.kernel(at, "DDP: gradient out of bucket", bytes, b_.ns(b_.ddp.copy_back_us), Phase::kBackward);
      if (i == plan_[k].gradients.front()) b_.wait_for(copy, done_[k]);
    }
  }
}

Place Buckets::behind_backward() const {
  const Gradients& gradients = b_.gradients;
  Place at{gradients.backward_cpu, gradients.backward_gpu};
  if (gradients.list.back().gpu == gradients.backward_gpu) at.gpu = behind_.back().gpu;
  if (gradients.list.back().cpu == gradients.backward_cpu) at.cpu = behind_.back().cpu;
  return at;
}

namespace {

// The collectives of one bucket, behind the copy of its last gradient; the last of them, and what decompresses it.
struct Reduced {
  std::uint32_t collective = kNone;
  std::uint32_t decompressed = kNone;
};

Reduced reduce_bucket(Builder& b, const Bucket& bucket, Place& at, std::uint32_t& hook_lane) {
  const Compressed c = compress(b.m, b.gradients, b.how, b.cluster.workers, bucket);
  Reduced r;
  const bool hook = b.how.compression != Compression::kNone;
  const auto small_kernel = [&](const char* name, double bytes, int count) {
    if (count > 0) b.kernel(at, name, bytes, b.ns(b.ddp.copy_back_us), Phase::kBackward, count);
  };
  // A hook that reads something back does so about halfway: its other calls follow on an idle GPU.
  const Ns behind_wait = c.waits ? c.cpu / 2 : 0;
  if (hook) b.cpu(at, "DDP: communication hook", b.ns(b.ddp.hook_us) + c.cpu - behind_wait, Phase::kBackward);
  small_kernel("compress", c.before_bytes, c.before_kernels);
  if (c.waits) {
    b.sync(at, "the hook waits for the GPU");
    b.cpu(at, "DDP: communication hook, behind the wait", behind_wait, Phase::kBackward);
  }
  // What runs behind a collective runs on streams of the hook's own.
  std::uint32_t previous = kNone;
  for (std::size_t i = 0; i < c.messages.size(); ++i) {
    b.cpu(at, "DDP: all-reduce call", b.ns(b.ddp.collective_us), Phase::kBackward);
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
    b.cpu(at, "DDP: hook's kernels", b.ns(b.ddp.copy_back_us) * kernels, Phase::kBackward);
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
  Buckets buckets(b);
  if (b.m.memory) b.m.memory->start_bytes += b.gradients.bytes();  // the buckets stay
  std::uint32_t hook_lane = kNone;
  buckets.reduce([&](const Bucket& bucket, Place& at, std::uint32_t launched) {
    const Reduced reduced = reduce_bucket(b, bucket, at, hook_lane);
    const bool decompresses = reduced.decompressed != kNone;
    if (b.few_queues()) {
      // Whatever shares a queue with a waiting task waits too: cuDNN's streams behind the collective, the main stream behind
      // the kernels on the hook's own stream.
      b.hold_side_streams(launched, b.first_of(reduced.collective), 0);
      if (decompresses) b.hold_main_stream(launched, reduced.decompressed);
    }
    return decompresses ? reduced.decompressed : reduced.collective;
  });
  buckets.copy_back();
  return {};
}

}  // namespace foretrace::whatif
