// Schemes that divide what each worker keeps: ZeRO 1 (optimizer states), ZeRO 2 (gradients too), and ZeRO 3 or fully sharded
// data parallel (parameters too).

#include <algorithm>
#include <map>

#include "whatif/catalogue/blocks.hpp"
#include "whatif/parallel/builder.hpp"

namespace foretrace::whatif {

using hardware::Collective;

namespace {

// The update of a share: its kernels work on 1/N of the elements.
void share_update(Builder& b) {
  const Graph& g = b.m.graph;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || g.phase[t] != Phase::kOptimizer) continue;
    const Ns floor = std::min(g.cost[t], b.memory_ns(0));
    b.draft.set(t, std::max(floor, g.cost[t] / b.cluster.workers), graph::Origin::kScaled);
  }
}

// States live in 1/N of the memory.
void share_memory(Builder& b, bool gradients, bool parameters, std::int64_t largest_unit) {
  if (!b.m.memory) return;
  const std::int64_t n = b.cluster.workers;
  const std::int64_t p = b.gradients.bytes();
  memory::Curve& c = *b.m.memory;
  // What is there throughout: parameters first, the rest is the optimizer's.
  const std::int64_t states = std::max<std::int64_t>(0, c.start_bytes - p);
  c.start_bytes -= states - states / n;
  c.state_bytes /= n;
  if (parameters) {
    c.start_bytes += p / n - p + 2 * largest_unit;
    c.parameter_bytes = c.parameter_bytes / n + 2 * largest_unit;
  }
  if (!gradients) return;
  for (memory::Block& block : c.blocks) {
    if (block.kind == memory::Kind::kGradient) block.bytes /= n;
  }
}

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
      "be told");
}

// The updated parameters go to everybody; forward of the next step waits, so the step's end does.
void gather_parameters(Builder& b, const std::vector<double>& messages, Collective kind) {
  Place at = behind_update(b);
  if (at.cpu == kNone) return;
  std::uint32_t last = kNone;
  for (const double bytes : messages) {
    b.cpu(at, "gather call", b.costs.per_collective, Phase::kOptimizer);
    last = b.collective(b.lane(), kind, bytes, "updated parameters");
    b.start_behind(last, at);
  }
  const std::uint32_t done = b.kernel(at, "parameters in place", 0, b.costs.per_copy_back, Phase::kOptimizer);
  b.wait_for(done, last);
}

// Parameters that are gathered and let go together.
struct Unit {
  std::vector<std::uint32_t> gradients;
  std::int64_t bytes = 0;
  std::uint32_t first_forward = kNone;  // GPU tasks of the main stream
  std::uint32_t first_backward = kNone;
  std::uint32_t last_gradient = 0;
};

// Blocks that repeat are units of their own, everything else is the root's; without names, parts of bucket size.
std::vector<Unit> units_of(const Builder& b) {
  const Graph& g = b.m.graph;
  const auto block_name = [&](const Gradient& gradient) -> std::string {
    for (const std::uint32_t t : gradient.side) {
      if (g.layer[t].valid()) return block_of(g.strings[g.layers[g.layer[t].index()].name]);
    }
    if (gradient.gpu == kNone || !g.layer[gradient.gpu].valid()) return {};
    return block_of(g.strings[g.layers[g.layer[gradient.gpu].index()].name]);
  };
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
  const std::size_t root = units.size();
  units.emplace_back();
  const auto add = [&](Unit& unit, std::uint32_t i) {
    unit.gradients.push_back(i);
    unit.bytes += b.gradients.list[i].elements * b.gradients.bytes_per_element;
    unit.last_gradient = std::max(unit.last_gradient, i);
  };
  for (std::uint32_t i = 0; i < b.gradients.list.size(); ++i) {
    const auto found = by_name.find(block_name(b.gradients.list[i]));
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

// CPU time of FSDP's hooks around a unit, without a profiler: read from the pace of small units (data/h200-ranks, fsdp).
constexpr Ns kUnitHooks = 900'000;

// `issued`: the task in front of which the gather is called; the unit's own first one, or an earlier unit's (prefetching).
void gather_unit(Builder& b, const Unit& unit, std::uint32_t first, std::uint32_t issued, Phase phase) {
  Place at = before(b.m.graph, first);
  Place call = before(b.m.graph, issued);
  if (at.cpu == kNone || at.gpu == kNone || call.cpu == kNone || call.gpu == kNone) return;
  const std::uint32_t previous = call.gpu;
  if (first == issued) {
    b.cpu(at, "FSDP: gather parameters", kUnitHooks, phase);
    call.cpu = at.cpu;
  } else {
    b.cpu(call, "FSDP: gather parameters ahead", kUnitHooks, phase);
  }
  const std::uint32_t gathered =
      b.collective(b.lane(), Collective::kAllGather, static_cast<double>(unit.bytes), "all-gather of a unit");
  b.start_behind(gathered, {call.cpu, kNone});
  // With few queues the gather starts in its turn behind the work launched before it.
  if (b.few_queues()) b.draft.depend(previous, b.first_of(gathered), 0, DependencyKind::kStreamWait, 0);
  const std::uint32_t copy =
      b.kernel(at, "FSDP: copy out", 2.0 * static_cast<double>(unit.bytes), b.costs.per_copy_back, phase);
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

Status apply_zero1(Builder& b) {
  FORETRACE_TRY_VOID(update_follows_backward(b));
  FORETRACE_TRY_VOID(apply_ddp(b));
  share_update(b);
  share_memory(b, false, false, 0);
  // ZeroRedundancyOptimizer: each owner broadcasts each of its parameters.
  std::vector<double> messages;
  for (const Gradient& g : b.gradients.list) {
    messages.push_back(static_cast<double>(g.elements * b.gradients.bytes_per_element));
  }
  gather_parameters(b, messages, Collective::kBroadcast);
  return {};
}

Status apply_zero2(Builder& b) {
  FORETRACE_TRY_VOID(update_follows_backward(b));
  const BucketPlan plan = plan_of(b.gradients, b.how);
  broadcast_buffers(b);
  std::vector<Place> behind = gradients_into_buckets(b);
  std::uint32_t last = 0;
  std::uint32_t reduced = kNone;
  for (const Bucket& bucket : plan) {
    for (const std::uint32_t i : bucket.gradients) last = std::max(last, i);
    Place at = behind[last];
    b.cpu(at, "reduce-scatter call", b.costs.per_collective, Phase::kBackward);
    reduced = b.collective(b.lane(), Collective::kReduceScatter, static_cast<double>(bucket.bytes),
                           "reduce-scatter of a bucket");
    b.start_behind(reduced, at);
    behind[last].cpu = at.cpu;
    if (b.few_queues()) b.hold_side_streams(b.gradients.list[last].cpu, reduced);
  }
  Place at = behind_backward(b, behind);
  const std::uint32_t wait =
      b.kernel(at, "gradients' share in place", 2.0 * static_cast<double>(b.gradients.bytes()) / b.cluster.workers,
               b.costs.per_wait, Phase::kBackward);
  b.wait_for(wait, reduced);
  share_update(b);
  share_memory(b, true, false, 0);
  gather_parameters(b, {static_cast<double>(b.gradients.bytes())}, Collective::kAllGather);
  return {};
}

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
  std::vector<std::size_t> forward(units.size());
  for (std::size_t u = 0; u < units.size(); ++u) forward[u] = u;
  std::stable_sort(forward.begin(), forward.end(),
                   [&](std::size_t a, std::size_t c) { return units[a].first_forward < units[c].first_forward; });
  for (const std::size_t u : forward)
    gather_unit(b, units[u], units[u].first_forward, units[u].first_forward, Phase::kForward);

  std::uint32_t reduced = kNone;
  for (const Collection& next : backward_order(b, units)) {
    const Unit& unit = units[next.unit];
    if (next.gathers) {
      gather_unit(b, unit, unit.first_backward, next.issued, Phase::kBackward);
      continue;
    }
    const Gradient& gradient = b.gradients.list[unit.last_gradient];
    Place at{gradient.cpu, gradient.gpu};
    const std::uint32_t copy =
        b.kernel(at, "FSDP: copy in", 2.0 * static_cast<double>(unit.bytes), b.costs.per_copy_back, Phase::kBackward);
    for (const std::uint32_t side : gradient.side) b.draft.depend(side, copy, 1'200, DependencyKind::kStreamWait);
    b.cpu(at, "FSDP: reduce gradients", kUnitHooks, Phase::kBackward);
    reduced =
        b.collective(b.lane(), Collective::kReduceScatter, static_cast<double>(unit.bytes), "reduce-scatter of a unit");
    b.start_behind(reduced, at);
    if (b.few_queues()) b.hold_main_stream(gradient.cpu, reduced);
  }
  Place at{b.gradients.backward_cpu, b.gradients.backward_gpu};
  const std::uint32_t wait = b.kernel(at, "gradients' share in place", 0, b.costs.per_wait, Phase::kBackward);
  if (reduced != kNone) b.wait_for(wait, reduced);
  share_update(b);
  share_memory(b, true, true, largest);
  return {};
}

}  // namespace foretrace::whatif
