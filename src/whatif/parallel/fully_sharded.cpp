// ZeRO 3, fully sharded data parallel: a unit's parameters are gathered before it runs, freed after it, gathered again for
// backward, and its gradients reduce-scattered. PyTorch has it twice: fully_shard, which keeps tensors separate and copies them into and
// out of the buffers that are sent, and FullyShardedDataParallel, which keeps a unit as one flat tensor (Parallelism::flat).

#include <fmt/format.h>

#include <algorithm>

#include "trace/latencies.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/parallel/sharded_units.hpp"
#include "whatif/rewrite/half_step.hpp"

namespace foretrace::whatif {

using hardware::Collective;

namespace {

// The CPU task in front of a GPU task's launch, and the GPU task in front of it.
Place before(const Graph& g, std::uint32_t gpu) {
  Place at;
  if (gpu == kNone || !g.launch[gpu].valid()) return at;
  const std::uint32_t call = g.launch[gpu].value;
  if (call > g.lanes[g.lane[call]].begin) at.cpu = call - 1;
  if (gpu > g.lanes[g.lane[gpu]].begin) at.gpu = gpu - 1;
  return at;
}

// CPU time of the hooks around a unit, in which PyTorch gathers, copies and reduces (HostCosts says which hook does what).
struct Hooks {
  Ns gather = 0, copy = 0, forward = 0, backward = 0;
  Ns fill = 0, reduce = 0, gradients = 0;  // a reduction: until its input is copied, until its call, behind that
};

// A unit's collective in backward: its parameters gathered again, or its gradients reduced.
struct Collection {
  std::size_t unit = 0;
  bool gathers = false;
  std::uint32_t used = kNone;    // GPU task of the main stream that the parameters are gathered for
  std::uint32_t issued = kNone;  // … in front of which a gather is called, or behind which a reduction is
};

class FullySharded {
 public:
  explicit FullySharded(Builder& b)
      : b_(b),
        // The trace is of workers that divide parameters already: its hooks and copies stay as they are.
        has_hooks_(b.communicates() && step_facts(b.m)->sharded),
        shards_(b.how.shard > 0 ? std::min(b.how.shard, b.cluster.workers) : b.cluster.workers),
        replicas_(b.cluster.workers / shards_),
        across_(across_groups(b.cluster, shards_)),
        units_(sharded_units(b)) {
    const std::int64_t kept = b.gradients.bytes_per_element;
    types_.kept = types_.gathered = types_.reduced = kept;
    if (b.how.param_dtype) types_.gathered = types_.reduced = work::bytes_of(*b.how.param_dtype);
    if (b.how.reduce_dtype) types_.reduced = work::bytes_of(*b.how.reduce_dtype);
  }

  void run() {
    const std::size_t passes = b_.gradients.passes;
    for (std::size_t p = 0; p < passes; ++p) {
      for (const auto& [unit, issued] : forward_order(p))
        gather(units_[unit], units_[unit].first_forward[p], issued, Phase::kForward);
      for (const Collection& next : backward_order(p, p + 1 == passes)) {
        if (next.gathers) {
          gather(units_[next.unit], next.used, next.issued, Phase::kBackward);
        } else {
          reduce(units_[next.unit]);
        }
      }
    }
    finish();
    share_update(b_, 1.0 / shards_);
    if (b_.how.cpu_offload) update_on_host();
    shard_memory(b_, units_, types_, shards_);
  }

 private:
  [[nodiscard]] Hooks hooks_of(const ShardedUnit& unit, host::CpuPhase phase) const {
    if (has_hooks_) return {};
    const host::HostCosts::Fsdp& us = b_.m.host.fsdp;
    const auto tensors = static_cast<double>(unit.gradients.size());
    const double whole = b_.how.flat ? us.flat_unit_share : 1;
    const double each = b_.how.flat ? us.flat_tensor_share : 1;
    const auto time = [&](double unit_us, double tensor_us) {
      return b_.m.cpu_time(whole * unit_us + each * tensor_us * tensors, phase);
    };
    // Parameters of another type are cast before they travel: one more operation over the list of them.
    const double cast = casts() ? b_.m.host.eager.op_us : 0;
    const double cast_tensor = casts() ? b_.m.host.update.list_tensor_us : 0;
    return {.gather = time(us.gather_us + cast, us.gather_tensor_us + cast_tensor),
            .copy = time(us.copy_us, us.copy_tensor_us),
            .forward = time(us.forward_us, 0),
            .backward = time(us.backward_us, 0),
            .fill = time(us.fill_share * us.reduce_us, 0),
            .reduce = time((1 - us.fill_share) * us.reduce_us, 0),
            .gradients = time(0, us.reduce_tensor_us)};
  }

  [[nodiscard]] bool casts() const { return types_.gathered != types_.kept; }

  // Units in the order in which forward needs them, each with the task in front of which it is gathered.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::uint32_t>> forward_order(std::size_t pass) const {
    std::vector<std::pair<std::size_t, std::uint32_t>> out;
    for (std::size_t u = 0; u < units_.size(); ++u) {
      if (pass < units_[u].first_forward.size()) out.emplace_back(u, units_[u].first_forward[pass]);
    }
    const auto ahead = static_cast<std::size_t>(std::max(0, b_.how.prefetch));
    for (std::size_t i = out.size(); ahead > 0 && i-- > 1;) out[i].second = out[i - std::min(i, ahead)].second;
    return out;
  }

  // Backward: gather again, one unit ahead (the root stayed), reduce-scatter when a unit's last gradient is there; in the order of
  // their calls, also where a unit begins before the last gradient of the one in front of it is there.
  [[nodiscard]] std::vector<Collection> backward_order(std::size_t pass, bool reduces) const {
    std::vector<Collection> out;
    for (std::size_t u = 0; b_.how.reshard && u < units_.size(); ++u) {
      if (pass >= units_[u].first_backward.size()) continue;
      const std::uint32_t first = units_[u].first_backward[pass];
      out.push_back({u, true, first, first});
    }
    std::stable_sort(out.begin(), out.end(), [](const auto& x, const auto& y) { return x.issued < y.issued; });
    const auto ahead = static_cast<std::size_t>(std::max(1, b_.how.prefetch));
    for (std::size_t i = out.size(); i-- > 1;) out[i].issued = out[i - std::min(i, ahead)].issued;
    for (std::size_t u = 0; reduces && u < units_.size(); ++u) {
      out.push_back({u, false, kNone, b_.gradients.list[units_[u].last_gradient].gpu});
    }
    std::stable_sort(out.begin(), out.end(), [](const Collection& x, const Collection& y) {
      return x.issued != y.issued ? x.issued < y.issued : x.gathers && !y.gathers;
    });
    return out;
  }

  // A copy between host and GPU in front of a collective or behind one.
  std::uint32_t host_copy(const char* name, double bytes) {
    if (host_ == kNone)
      host_ = b_.draft.add_lane(graph::GraphLaneKind::kGpu, "copies of shards",
                                b_.m.graph.lanes[b_.gradients.stream].device);
    const double gbs = b_.m.device.pcie_gbs;
    return b_.draft.append(host_, TaskKind::kMemcpy, name, gbs > 0 ? static_cast<Ns>(bytes / gbs) : 0, Phase::kOther,
                           {});
  }

  // `issued`: the task in front of which the gather is called; the unit's own first one, or an earlier unit's (prefetching).
  void gather(const ShardedUnit& unit, std::uint32_t first, std::uint32_t issued, Phase phase) {
    const bool backward = phase == Phase::kBackward;
    const Hooks hooks = hooks_of(unit, backward ? host::CpuPhase::kBackward : host::CpuPhase::kForward);
    const double bytes = static_cast<double>(unit.elements * types_.gathered);
    Place at = before(b_.m.graph, first);
    Place call = before(b_.m.graph, issued);
    if (at.cpu == kNone || at.gpu == kNone || call.cpu == kNone || call.gpu == kNone) return;
    const std::uint32_t previous = call.gpu;
    if (first == issued) {
      b_.cpu(at, "FSDP: gather parameters", hooks.gather, phase);
      call.cpu = at.cpu;
    } else {
      b_.cpu(call, "FSDP: gather parameters ahead", hooks.gather, phase);
    }
    const std::uint32_t gathered = b_.collective(b_.lane(), Collective::kAllGather, bytes, shards_, kGatherOfUnit);
    b_.start_behind(gathered, {call.cpu, kNone});
    // With few queues the gather starts in its turn behind the work launched before it.
    if (b_.few_queues()) b_.draft.depend(previous, b_.first_of(gathered), 0, DependencyKind::kStreamWait, 0);
    if (b_.how.cpu_offload) {
      const std::uint32_t there =
          host_copy("shard from the host", static_cast<double>(unit.elements * types_.kept) / shards_);
      b_.draft.depend(call.cpu, there, 0, DependencyKind::kLaunch);
      b_.wait_for(gathered, there);
    }
    b_.cpu(at, "FSDP: hooks of a unit", backward ? hooks.backward / 2 : hooks.forward, phase);
    // A flat tensor is gathered where it is used: the stream waits, and nothing is copied.
    const double copied = b_.how.flat || has_hooks_ ? 0 : 2.0 * bytes;
    const std::uint32_t copy =
        b_.kernel(at, b_.how.flat ? "FSDP: parameters in place" : "FSDP: copy out", copied, hooks.copy, phase);
    b_.wait_for(copy, gathered);
  }

  void reduce(const ShardedUnit& unit) {
    const Ns join = b_.m.latencies->kernel_gap;  // from a side stream's end to the next kernel of the main one
    const Gradient& gradient = b_.gradients.list[unit.last_gradient];
    Place at{gradient.cpu, gradient.gpu};
    const Hooks hooks = hooks_of(unit, host::CpuPhase::kBackward);
    const auto elements = static_cast<double>(unit.elements);
    b_.cpu(at, "FSDP: hooks of a unit", hooks.backward / 2, Phase::kBackward);
    const double filled = elements * static_cast<double>(types_.gathered + types_.reduced);
    const std::uint32_t copy = b_.kernel(at, "FSDP: copy in", has_hooks_ ? 0 : filled, hooks.fill, Phase::kBackward);
    for (const std::uint32_t side : gradient.side) b_.draft.depend(side, copy, join, DependencyKind::kStreamWait);
    b_.cpu(at, "FSDP: reduce gradients", hooks.reduce, Phase::kBackward);
    const double bytes = elements * static_cast<double>(types_.reduced);
    reduced_ = b_.collective(b_.lane(), Collective::kReduceScatter, bytes, shards_, "reduce-scatter of a unit");
    b_.start_behind(reduced_, at);
    std::uint32_t last = reduced_;
    if (replicas_ > 1) {
      if (replicas_lane_ == kNone) replicas_lane_ = b_.new_lane("communication of replicas");
      last = b_.transfer(replicas_lane_, across_->cost({Collective::kAllReduce, bytes / shards_, replicas_}),
                         "all-reduce of shards");
      b_.wait_for(last, reduced_);
    }
    if (b_.how.cpu_offload) {
      const std::uint32_t away =
          host_copy("gradient to the host", elements * static_cast<double>(types_.kept) / shards_);
      b_.wait_for(away, last);
      last = away;
    }
    reduced_last_ = last;
    b_.cpu(at, "FSDP: gradients of the shards", hooks.gradients, Phase::kBackward);
    // FullyShardedDataParallel's reductions never held the main stream in the rows there are.
    if (b_.few_queues() && !b_.how.flat) b_.hold_main_stream(gradient.cpu, reduced_);
  }

  void finish() {
    Place at{b_.gradients.backward_cpu, b_.gradients.backward_gpu};
    const std::uint32_t wait = b_.kernel(at, "gradients' share in place", 0, b_.ns(b_.ddp.wait_us), Phase::kBackward);
    if (reduced_last_ != kNone) b_.wait_for(wait, reduced_last_);
    if (has_hooks_ || b_.how.flat) return;  // flat parameters are plain tensors
    const double us = b_.m.host.fsdp.update_tensor_us * static_cast<double>(b_.gradients.list.size());
    b_.cpu(at, "FSDP: sharded tensors in the update", b_.m.cpu_time(us, host::CpuPhase::kOptimizer), Phase::kOptimizer);
  }

  void update_on_host() {
    b_.draft.remove(b_.draft.select({.gpu = true, .phase = Phase::kOptimizer}), Draft::kTaskOnly);
    b_.m.not_modelled.emplace_back("the update on the host: how long it takes depends on its cores and memory");
  }

  Builder& b_;
  bool has_hooks_;
  int shards_, replicas_;
  std::shared_ptr<const hardware::CollectiveModel> across_;
  std::vector<ShardedUnit> units_;
  ShardedTypes types_;
  std::uint32_t reduced_ = kNone, reduced_last_ = kNone;
  std::uint32_t replicas_lane_ = kNone, host_ = kNone;
};

}  // namespace

Status apply_fsdp(Builder& b) {
  if (b.how.shard > 0 && (b.how.shard > b.cluster.workers || b.cluster.workers % b.how.shard != 0)) {
    return fail(
        ErrorCode::kDeclined,
        fmt::format("{} workers cannot form groups of {} that divide the model", b.cluster.workers, b.how.shard),
        "shard= divides the number of workers");
  }
  if (b.how.cpu_offload && b.m.device.pcie_gbs <= 0)
    return fail(ErrorCode::kDeclined, "the link between host and GPU is not known");
  if (b.how.param_dtype && work::is_half(*b.how.param_dtype)) compute_in_half(b.m, b.draft, *b.how.param_dtype);
  FullySharded(b).run();
  return {};
}

}  // namespace foretrace::whatif
