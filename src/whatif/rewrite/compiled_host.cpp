#include <set>

#include "trace/latencies.hpp"
#include "whatif/model/allocator_calls.hpp"
#include "whatif/rewrite/compiling.hpp"
#include "whatif/rewrite/graph_regions.hpp"

namespace foretrace::whatif {

namespace {

struct Pass {
  Phase phase;
  Selection tasks = {};  ///< of the CPU, inside what is compiled
  double before = 0;     ///< ns they take now
};

// CPU tasks of what is compiled. A task that works for no known operation belongs to what came before it on its thread.
void collect(Compiling& c, const FusionPlan& plan, Pass& pass) {
  const Graph& g = c.model.graph;
  for (const graph::GraphLane& lane : g.lanes) {
    if (lane.kind != graph::GraphLaneKind::kCpu) continue;
    bool inside = false;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (g.phase[t] != pass.phase) {
        inside = false;
        continue;
      }
      if (g.op[t].valid()) {
        const std::uint32_t op = g.op[t].value;
        const std::uint32_t unit = pass.phase == Phase::kForward ? c.flow.unit_of(op) : c.flow.backward_of(op).unit;
        if (unit != kNone && plan.where[unit] != FusionPlan::kView) inside = plan.where[unit] == FusionPlan::kInside;
      }
      if (!inside || is_allocator_call(g, t)) continue;
      if (g.kind[t] != TaskKind::kCpu && g.kind[t] != TaskKind::kCall) continue;
      pass.tasks.push_back(t);
      pass.before += static_cast<double>(c.draft.cost(t));
    }
  }
}

}  // namespace

void compile_host(Compiling& c, const FusionPlan& plan, bool graphed) {
  const host::HostCosts& host = c.model.host;
  const trace::Latencies& latencies = *c.model.latencies;
  std::set<std::uint32_t> regions;
  for (const std::uint32_t r : c.region) {
    if (r != kNone) regions.insert(r);
  }
  Pass passes[] = {{Phase::kForward}, {Phase::kBackward}};
  for (std::size_t p = 0; p < std::size(passes); ++p) {
    Pass& pass = passes[p];
    collect(c, plan, pass);
    if (pass.before <= 0) continue;
    const double launches = graphed ? 0 : c.launches[p] * host.compiled.launch_us;
    const double calls = static_cast<double>(regions.size()) * host.compiled.call_us;
    const Ns launch = graphed ? graph_launch_time(c.model, static_cast<std::size_t>(c.launches[p]), pass.phase) : 0;
    const double after = static_cast<double>(c.model.cpu_time(calls + launches, pass.phase) + launch);
    c.draft.scale(pass.tasks, after / pass.before);
  }
  if (!graphed) return;
  for (std::size_t r = 0; r < c.rows.size(); ++r) {
    if (c.region[r] == kNone || (c.rows[r].phase != Phase::kForward && c.rows[r].phase != Phase::kBackward)) continue;
    for (const std::uint32_t t : c.rows[r].tasks) {
      if (c.model.graph.lane_lag[t] > latencies.graph_gap) c.draft.set_lane_lag(t, latencies.graph_gap);
    }
  }
}

}  // namespace foretrace::whatif
