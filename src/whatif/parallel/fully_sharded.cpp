// ZeRO 3, fully sharded data parallel: a unit's parameters are gathered before it runs, let go behind it, gathered again for
// backward, and its gradients reduce-scattered. PyTorch has it twice: fully_shard, which keeps tensors apart and copies them into and
// out of what travels, and FullyShardedDataParallel, which keeps a unit as one flat tensor (Parallelism::flat).

#include <algorithm>
#include <map>

#include "trace/latencies.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

using hardware::Collective;

namespace {

// Parameters that are gathered and let go together.
struct Unit {
  std::vector<std::uint32_t> gradients;
  std::int64_t bytes = 0;
  std::uint32_t first_forward = kNone;  // GPU tasks of the main stream
  std::uint32_t first_backward = kNone;
  std::uint32_t last_gradient = 0;
};

std::string_view layer_name(const Graph& g, std::uint32_t task) {
  return task == kNone || !g.layer[task].valid() ? std::string_view() : g.strings[g.layers[g.layer[task].index()].name];
}

std::string_view layer_name(const Builder& b, const Gradient& gradient) {
  for (const std::uint32_t t : gradient.side) {
    if (const std::string_view name = layer_name(b.m.graph, t); !name.empty()) return name;
  }
  return layer_name(b.m.graph, gradient.gpu);
}

// Layers as large as a bucket, where no blocks repeat.
std::map<std::string, Unit> large_layers(const Builder& b) {
  const Graph& g = b.m.graph;
  std::map<std::string, Unit> units;
  for (std::uint32_t i = 0; i < b.gradients.list.size(); ++i) {
    if (const std::string_view name = layer_name(b, b.gradients.list[i]); !name.empty())
      units[std::string(name)].bytes += b.gradients.bytes(i);
  }
  const auto least = static_cast<std::int64_t>(b.how.bucket_mb * (1 << 20));
  std::erase_if(units, [&](const auto& unit) { return unit.second.bytes < least; });
  for (std::uint32_t t = g.lanes[b.gradients.stream].begin; t < g.lanes[b.gradients.stream].end; ++t) {
    const auto found = units.find(std::string(layer_name(g, t)));
    if (found == units.end()) continue;
    std::uint32_t& first = g.phase[t] == Phase::kForward ? found->second.first_forward : found->second.first_backward;
    if (first == kNone && (g.phase[t] == Phase::kForward || g.phase[t] == Phase::kBackward)) first = t;
  }
  for (auto& [name, unit] : units) unit.bytes = 0;  // counted again with its gradients
  return units;
}

// Blocks that repeat are units of their own, without any the large layers; everything else is the root's.
std::vector<Unit> units_of(const Builder& b) {
  const Graph& g = b.m.graph;
  std::vector<Unit> units;
  std::map<std::string, std::size_t> by_name;
  const std::vector<BlockOfLayers> blocks = repeated_blocks(g);
  for (const BlockOfLayers& block : blocks) {
    by_name.emplace(block.name, units.size());
    Unit unit;
    for (const std::uint32_t t : block.forward) {
      if (g.lane[t] == b.gradients.stream) {
        unit.first_forward = t;
        break;
      }
    }
    if (block.first_backward != kNone) unit.first_backward = block.first_backward;
    units.push_back(std::move(unit));
  }
  if (blocks.empty()) {
    for (auto& [name, unit] : large_layers(b)) {
      by_name.emplace(name, units.size());
      units.push_back(std::move(unit));
    }
  }
  const std::size_t root = units.size();
  units.emplace_back();
  const auto add = [&](Unit& unit, std::uint32_t i) {
    unit.gradients.push_back(i);
    unit.bytes += b.gradients.bytes(i);
    unit.last_gradient = std::max(unit.last_gradient, i);
  };
  for (std::uint32_t i = 0; i < b.gradients.list.size(); ++i) {
    const std::string_view layer = layer_name(b, b.gradients.list[i]);
    const auto found = by_name.find(blocks.empty() ? std::string(layer) : std::string(block_of(layer)));
    add(units[found == by_name.end() ? root : found->second], i);
  }
  std::erase_if(units, [](const Unit& u) { return u.gradients.empty(); });
  return units;
}

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

// The trace is of workers that divide parameters already: its hooks and copies stay as they are.
bool has_hooks(const Builder& b) { return b.communicates() && step_facts(b.m)->sharded; }

Hooks hooks_of(const Builder& b, const Unit& unit, host::CpuPhase phase) {
  if (has_hooks(b)) return {};
  const host::HostCosts::Fsdp& us = b.m.host.fsdp;
  const auto tensors = static_cast<double>(unit.gradients.size());
  const double whole = b.how.flat ? us.flat_unit_share : 1;
  const double each = b.how.flat ? us.flat_tensor_share : 1;
  const auto time = [&](double unit_us, double tensor_us) {
    return b.m.cpu_time(whole * unit_us + each * tensor_us * tensors, phase);
  };
  return {.gather = time(us.gather_us, us.gather_tensor_us),
          .copy = time(us.copy_us, us.copy_tensor_us),
          .forward = time(us.forward_us, 0),
          .backward = time(us.backward_us, 0),
          .fill = time(us.fill_share * us.reduce_us, 0),
          .reduce = time((1 - us.fill_share) * us.reduce_us, 0),
          .gradients = time(0, us.reduce_tensor_us)};
}

// `issued`: the task in front of which the gather is called; the unit's own first one, or an earlier unit's (prefetching).
void gather_unit(Builder& b, const Unit& unit, std::uint32_t first, std::uint32_t issued, Phase phase) {
  const bool backward = phase == Phase::kBackward;
  const Hooks hooks = hooks_of(b, unit, backward ? host::CpuPhase::kBackward : host::CpuPhase::kForward);
  Place at = before(b.m.graph, first);
  Place call = before(b.m.graph, issued);
  if (at.cpu == kNone || at.gpu == kNone || call.cpu == kNone || call.gpu == kNone) return;
  const std::uint32_t previous = call.gpu;
  if (first == issued) {
    b.cpu(at, "FSDP: gather parameters", hooks.gather, phase);
    call.cpu = at.cpu;
  } else {
    b.cpu(call, "FSDP: gather parameters ahead", hooks.gather, phase);
  }
  const std::uint32_t gathered =
      b.collective(b.lane(), Collective::kAllGather, static_cast<double>(unit.bytes), "all-gather of a unit");
  b.start_behind(gathered, {call.cpu, kNone});
  // With few queues the gather starts in its turn behind the work launched before it.
  if (b.few_queues()) b.draft.depend(previous, b.first_of(gathered), 0, DependencyKind::kStreamWait, 0);
  b.cpu(at, "FSDP: hooks of a unit", backward ? hooks.backward / 2 : hooks.forward, phase);
  // A flat tensor is gathered where it is used: the stream waits, and nothing is copied.
  const double copied = b.how.flat || has_hooks(b) ? 0 : 2.0 * static_cast<double>(unit.bytes);
  const std::uint32_t copy =
      b.kernel(at, b.how.flat ? "FSDP: parameters in place" : "FSDP: copy out", copied, hooks.copy, phase);
  b.wait_for(copy, gathered);
}

// A unit's collective in backward: its parameters gathered again, or its gradients reduced.
struct Collection {
  std::size_t unit = 0;
  bool gathers = false;
  std::uint32_t issued =
      kNone;  // GPU task of the main stream: a gather is called in front of it, a reduction behind it
};

// Backward: gather again, one unit ahead (the root stayed), reduce-scatter when a unit's last gradient is there; in the order of
// their calls, also where a unit begins before the last gradient of the one in front of it is there.
std::vector<Collection> backward_order(const Builder& b, const std::vector<Unit>& units) {
  std::vector<Collection> out;
  for (std::size_t u = 0; u < units.size(); ++u) {
    if (units[u].first_backward != kNone) out.push_back({u, true, units[u].first_backward});
  }
  std::stable_sort(out.begin(), out.end(), [](const auto& x, const auto& y) { return x.issued < y.issued; });
  for (std::size_t i = out.size(); i-- > 1;) out[i].issued = out[i - 1].issued;
  for (std::size_t u = 0; u < units.size(); ++u) {
    out.push_back({u, false, b.gradients.list[units[u].last_gradient].gpu});
  }
  std::stable_sort(out.begin(), out.end(), [](const Collection& x, const Collection& y) {
    return x.issued != y.issued ? x.issued < y.issued : x.gathers && !y.gathers;
  });
  return out;
}

}  // namespace

Status apply_fsdp(Builder& b) {
  const Graph& g = b.m.graph;
  std::vector<Unit> units = units_of(b);
  std::int64_t largest = 0;
  for (const Unit& unit : units) largest = std::max(largest, unit.bytes);
  // The root is gathered before everything else.
  for (Unit& unit : units) {
    if (unit.first_forward != kNone) continue;
    for (std::uint32_t t = g.lanes[b.gradients.stream].begin; t < g.lanes[b.gradients.stream].end; ++t) {
      if (g.phase[t] == Phase::kForward) {
        unit.first_forward = t;
        break;
      }
    }
  }
  // Units are gathered in the order in which forward needs them.
  std::vector<std::size_t> forward(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) forward[u] = u;
  std::stable_sort(forward.begin(), forward.end(),
                   [&](std::size_t a, std::size_t c) { return units[a].first_forward < units[c].first_forward; });
  for (const std::size_t u : forward)
    gather_unit(b, units[u], units[u].first_forward, units[u].first_forward, Phase::kForward);

  const Ns join = b.m.latencies->kernel_gap;  // from a side stream's end to the next kernel of the main one
  std::uint32_t reduced = kNone;
  for (const Collection& next : backward_order(b, units)) {
    const Unit& unit = units[next.unit];
    if (next.gathers) {
      gather_unit(b, unit, unit.first_backward, next.issued, Phase::kBackward);
      continue;
    }
    const Gradient& gradient = b.gradients.list[unit.last_gradient];
    Place at{gradient.cpu, gradient.gpu};
    const Hooks hooks = hooks_of(b, unit, host::CpuPhase::kBackward);
    b.cpu(at, "FSDP: hooks of a unit", hooks.backward / 2, Phase::kBackward);
    const std::uint32_t copy = b.kernel(at, "FSDP: copy in", has_hooks(b) ? 0 : 2.0 * static_cast<double>(unit.bytes),
                                        hooks.fill, Phase::kBackward);
    for (const std::uint32_t side : gradient.side) b.draft.depend(side, copy, join, DependencyKind::kStreamWait);
    b.cpu(at, "FSDP: reduce gradients", hooks.reduce, Phase::kBackward);
    reduced =
        b.collective(b.lane(), Collective::kReduceScatter, static_cast<double>(unit.bytes), "reduce-scatter of a unit");
    b.start_behind(reduced, at);
    b.cpu(at, "FSDP: gradients of the shards", hooks.gradients, Phase::kBackward);
    // FullyShardedDataParallel's reductions never held the main stream in the rows there are.
    if (b.few_queues() && !b.how.flat) b.hold_main_stream(gradient.cpu, reduced);
  }
  Place at{b.gradients.backward_cpu, b.gradients.backward_gpu};
  const std::uint32_t wait = b.kernel(at, "gradients' share in place", 0, b.ns(b.ddp.wait_us), Phase::kBackward);
  if (reduced != kNone) b.wait_for(wait, reduced);
  if (!has_hooks(b) && !b.how.flat) {  // flat parameters are plain tensors
    const double us = b.m.host.fsdp.update_tensor_us * static_cast<double>(b.gradients.list.size());
    b.cpu(at, "FSDP: sharded tensors in the update", b.m.cpu_time(us, host::CpuPhase::kOptimizer), Phase::kOptimizer);
  }
  const double share = 1.0 / b.cluster.workers;
  share_update(b, share);
  share_memory(b, share, true, true, largest);
  return {};
}

}  // namespace foretrace::whatif
