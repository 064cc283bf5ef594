// BlueConnect splits an all-reduce along the levels of the network, each level a channel of its own, so that the parts of
// different buckets run in parallel. Horovod fills a buffer with whatever is ready in each cycle.

#include <algorithm>
#include <cmath>
#include <memory>

#include "foretrace/simulate/simulate.hpp"
#include "hardware/collective.hpp"
#include "whatif/parallel/builder.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {

using hardware::Collective;

namespace {

// The level between nodes as a network of its own, with the part of it that each of a node's GPUs gets.
hardware::Fabric between_nodes(const hardware::Fabric& fabric) {
  hardware::Fabric outer = fabric;
  outer.levels.erase(outer.levels.begin());
  if (outer.levels[0].per_node) outer.levels[0].gbs /= fabric.gpus_per_node;
  outer.gpus_per_node = 1;
  return outer;
}

// What one bucket's part costs at each level of the network.
class Levels {
 public:
  static Result<Levels> of(const Cluster& cluster) {
    Levels l;
    l.whole_ = cluster.collectives;
    l.per_node = cluster.gpus_per_node;
    if (const auto* model = dynamic_cast<const hardware::FabricCollectives*>(cluster.collectives)) {
      l.per_node = model->fabric().levels.size() < 2 ? 1 : model->fabric().gpus_per_node;
      if (l.per_node > 1) l.outer_ = std::make_unique<hardware::FabricCollectives>(between_nodes(model->fabric()));
    }
    if (l.per_node < 2) {
      return fail(
          ErrorCode::kDeclined, "BlueConnect needs a network of two levels",
          "name a fabric with nodes of several GPUs: --fabric DGX-H100, or --gpus-per-node with Ethernet or with "
          "measured collectives");
    }
    l.nodes = (cluster.workers + l.per_node - 1) / l.per_node;
    if (l.nodes < 2) return fail(ErrorCode::kDeclined, "all workers are in one node: there is one level only");
    return l;
  }

  [[nodiscard]] hardware::CollectiveCost between(double bytes) const {
    const hardware::CollectiveModel& model = outer_ ? *outer_ : *whole_;
    return model.cost({Collective::kAllReduce, bytes / per_node, nodes});
  }

  int per_node = 1, nodes = 1;

 private:
  const hardware::CollectiveModel* whole_ = nullptr;  // measured collectives: of groups of either size
  std::unique_ptr<hardware::FabricCollectives> outer_;
};

}  // namespace

std::shared_ptr<const hardware::CollectiveModel> across_groups(const Cluster& cluster, int group) {
  const auto* model = dynamic_cast<const hardware::FabricCollectives*>(cluster.collectives);
  const std::shared_ptr<const hardware::CollectiveModel> whole(cluster.collectives, [](const auto*) {});
  if (model == nullptr || model->fabric().levels.size() < 2 || group < model->fabric().gpus_per_node) return whole;
  return std::make_shared<hardware::FabricCollectives>(between_nodes(model->fabric()));
}

Status apply_blueconnect(Builder& b) {
  FORETRACE_TRY(const Levels levels, Levels::of(b.cluster));
  Buckets buckets(b);
  // Buckets, and of each the part that a worker has between the levels.
  if (b.m.memory) b.m.memory->start_bytes += b.gradients.bytes() + b.gradients.bytes() / levels.per_node;
  const std::uint32_t inside = b.lane();
  const std::uint32_t between = b.new_lane("communication between nodes");
  const std::uint32_t back = b.new_lane("communication back inside nodes");
  b.draft.added_lane(inside).link = b.draft.added_lane(back).link = 1;  // both use the links inside a node
  buckets.reduce([&](const Bucket& bucket, Place& at, std::uint32_t launched) {
    b.cpu(at, "communication hook", b.ns(b.ddp.hook_us), Phase::kBackward);
    std::uint32_t gather = kNone;
    // Parts of a bucket follow each other through the levels: with many of them, only the slowest level's time shows.
    for (const double bytes : b.slices(static_cast<double>(bucket.bytes))) {
      b.cpu(at, "BlueConnect calls", 3 * b.ns(b.ddp.collective_us), Phase::kBackward);
      const std::uint32_t scatter =
          b.collective(inside, Collective::kReduceScatter, bytes, levels.per_node, "reduce-scatter inside nodes");
      const std::uint32_t across = b.transfer(between, levels.between(bytes), "all-reduce between nodes");
      gather = b.collective(back, Collective::kAllGather, bytes, levels.per_node, "all-gather inside nodes");
      b.start_behind(scatter, at);
      b.wait_for(across, scatter);
      b.wait_for(gather, across);
    }
    // Every level has streams of its own, and what waits on the last of them shares the main one's queue.
    if (b.few_queues()) b.hold_main_stream(launched, gather);
    return gather;
  });
  buckets.copy_back();
  return {};
}

Status apply_horovod(Builder& b) {
  constexpr double kFusionBytes = 64 << 20;  // HOROVOD_FUSION_THRESHOLD
  const auto cycle = std::max<Ns>(1, static_cast<Ns>(b.how.cycle_ms * 1e6));
  const Gradients& gradients = b.gradients;
  // A gradient joins the next round once its hook has run: rounds follow the CPU, which is ahead of the GPU.
  const simulate::Timeline alone = simulate::simulate(b.m.graph);
  const Ns hook = b.ns(b.ddp.gradient_us) / 2;  // an event and a place in a list; no copy yet
  const Ns begin = alone.end[gradients.list.front().cpu];
  const auto round_of = [&](std::uint32_t i) {
    return (alone.end[gradients.list[i].cpu] - begin + static_cast<Ns>(i) * hook) / cycle;
  };
  const std::uint32_t copies =
      b.draft.add_lane(graph::GraphLaneKind::kGpu, "fusion buffer", b.m.graph.lanes[gradients.stream].device);
  const std::uint32_t rounds = b.draft.add_lane(graph::GraphLaneKind::kCpu, "Horovod");
  std::vector<std::uint32_t> out;
  for (std::uint32_t i = 0; i < gradients.list.size();) {
    const Ns round = round_of(i);
    double bytes = 0;
    std::uint32_t hooked = kNone;
    do {
      const Gradient& gradient = gradients.list[i];
      bytes += static_cast<double>(gradients.bytes(i));
      Place at{gradient.cpu, gradient.gpu};
      hooked = b.cpu(at, "Horovod: hook", hook, Phase::kBackward);
      ++i;
    } while (i < gradients.list.size() && round_of(i) == round &&
             bytes + static_cast<double>(gradients.bytes(i)) <= kFusionBytes);
    // The thread looks at the end of the round, agrees with the others, and calls three kernels and the collective.
    const std::uint32_t call = b.draft.append(rounds, TaskKind::kCpu, "Horovod: round",
                                              b.ns(b.ddp.hook_us) + b.ns(b.ddp.collective_us), Phase::kBackward, {});
    b.draft.depend(hooked, call, cycle / 2, DependencyKind::kThread);  // rounds end at any time
    const std::uint32_t in = b.draft.append(copies, TaskKind::kKernel, "gradients into the fusion buffer",
                                            b.memory_ns(2 * bytes), Phase::kBackward, {});
    b.draft.depend(call, in, 0, DependencyKind::kLaunch);
    const Gradient& last = gradients.list[i - 1];
    b.draft.depend(last.gpu, in, 1'200, DependencyKind::kStreamWait);
    for (const std::uint32_t side : last.side) b.draft.depend(side, in, 1'200, DependencyKind::kStreamWait);
    const std::uint32_t task = b.collective(b.lane(), Collective::kAllReduce, bytes, "all-reduce of the fusion buffer");
    b.start_behind(task, {call, in});
    out.push_back(b.draft.append(copies, TaskKind::kKernel, "gradients out of the fusion buffer",
                                 b.memory_ns(4 * bytes), Phase::kBackward, {}));  // divided, copied
    b.wait_for(out.back(), task);
    // What waits behind the collective on a stream of its own holds whatever shares its queue.
    if (b.few_queues()) b.hold_side_streams(last.cpu, out.back());
  }
  Place at{gradients.backward_cpu, gradients.backward_gpu};
  b.wait_for(b.kernel(at, "wait for Horovod", 0, b.ns(b.ddp.wait_us), Phase::kBackward), out.back());
  return {};
}

}  // namespace foretrace::whatif
