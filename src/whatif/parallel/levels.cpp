// BlueConnect takes an all-reduce apart along the levels of the network, each level a channel of its own, so that the parts
// of different buckets run side by side. Horovod fills a buffer with whatever is ready when its cycle comes round.

#include <algorithm>
#include <cmath>
#include <memory>

#include "foretrace/simulate/simulate.hpp"
#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

using hardware::Collective;

namespace {

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
  // The level between nodes as a network of its own, with the part of it that each of K groups gets.
  static hardware::Fabric between_nodes(const hardware::Fabric& fabric) {
    hardware::Fabric outer = fabric;
    outer.levels.erase(outer.levels.begin());
    if (outer.levels[0].per_node) outer.levels[0].gbs /= fabric.gpus_per_node;
    outer.gpus_per_node = 1;
    return outer;
  }

  const hardware::CollectiveModel* whole_ = nullptr;  // measured collectives: of groups of either size
  std::unique_ptr<hardware::FabricCollectives> outer_;
};

}  // namespace

Status apply_blueconnect(Builder& b) {
  FORETRACE_TRY(const Levels levels, Levels::of(b.cluster));
  const BucketPlan plan = plan_of(b.gradients, b.strategy);
  broadcast_buffers(b);
  std::vector<Place> behind = gradients_into_buckets(b);
  const std::uint32_t inside = b.lane();
  const std::uint32_t between = b.new_lane("communication between nodes");
  const std::uint32_t back = b.new_lane("communication back inside nodes");
  b.m.interference->links.push_back({"communication", "communication back inside nodes"});  // both on the node's links
  std::vector<std::uint32_t> done;
  std::uint32_t last = 0;
  for (const Bucket& bucket : plan) {
    for (const std::uint32_t i : bucket.gradients) last = std::max(last, i);
    Place at = behind[last];
    std::uint32_t gather = kNoTask;
    // Parts of a bucket follow each other through the levels: with many of them the slowest level's time is what is seen.
    for (const double bytes : b.slices(static_cast<double>(bucket.bytes))) {
      b.cpu(at, "BlueConnect calls", 3 * b.costs.per_collective, Phase::kBackward);
      const std::uint32_t scatter =
          b.collective(inside, Collective::kReduceScatter, bytes, levels.per_node, "reduce-scatter inside nodes");
      const std::uint32_t across = b.transfer(between, levels.between(bytes), "all-reduce between nodes");
      gather = b.collective(back, Collective::kAllGather, bytes, levels.per_node, "all-gather inside nodes");
      b.start_behind(scatter, at);
      b.wait_for(across, scatter);
      b.wait_for(gather, across);
    }
    behind[last].cpu = at.cpu;
    done.push_back(gather);
  }
  copy_back(b, behind_backward(b, behind), plan, done);
  return {};
}

Status apply_horovod(Builder& b) {
  constexpr double kFusionBytes = 64 << 20;  // HOROVOD_FUSION_THRESHOLD
  const auto cycle = static_cast<Ns>(b.strategy.cycle_ms * 1e6);
  const simulate::Timeline alone = simulate::simulate(b.m.graph);
  broadcast_buffers(b);
  std::vector<Place> behind = gradients_into_buckets(b);
  std::vector<std::uint32_t> reduced;
  BucketPlan plan;
  const auto ready_at = [&](std::uint32_t i) { return alone.end[b.gradients.list[i].gpu]; };
  for (std::uint32_t i = 0; i < b.gradients.list.size();) {
    // Everything ready at the next tick, as far as it fits.
    const Ns tick = cycle > 0 ? (ready_at(i) / cycle + 1) * cycle : ready_at(i);
    Bucket bucket;
    std::uint32_t last = i;
    while (i < b.gradients.list.size() && (bucket.gradients.empty() || ready_at(i) <= tick)) {
      const std::int64_t bytes = b.gradients.list[i].elements * b.gradients.bytes_per_element;
      if (!bucket.gradients.empty() && static_cast<double>(bucket.bytes + bytes) > kFusionBytes) break;
      bucket.gradients.push_back(i);
      bucket.bytes += bytes;
      last = i++;
    }
    Place at = behind[last];
    const std::uint32_t task = b.collective(b.lane(), Collective::kAllReduce, static_cast<double>(bucket.bytes),
                                            "all-reduce of the fusion buffer");
    // Horovod's own thread looks at the tick; the tensors of the same tick wait for it.
    b.draft.depend(at.cpu, b.first_of(task), 0, DependencyKind::kLaunch);
    b.draft.depend(at.gpu, b.first_of(task), std::max<Ns>(0, tick - ready_at(last)), DependencyKind::kStreamWait);
    reduced.push_back(task);
    plan.push_back(std::move(bucket));
  }
  Place at = behind_backward(b, behind);
  for (std::size_t k = 0; k < plan.size(); ++k) {
    const std::uint32_t copy =
        b.kernel(at, "gradients out of the fusion buffer", 2.0 * static_cast<double>(plan[k].bytes),
                 b.costs.per_copy_back, Phase::kBackward);
    b.wait_for(copy, reduced[k]);
  }
  return {};
}

}  // namespace foretrace::whatif
