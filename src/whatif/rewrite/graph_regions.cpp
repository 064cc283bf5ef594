#include "whatif/rewrite/graph_regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/call_roles.hpp"
#include "hardware/cost.hpp"
#include "trace/latencies.hpp"
#include "whatif/dataflow/layer_regions.hpp"
#include "whatif/dataflow/saved_tensors.hpp"
#include "whatif/model/allocator_calls.hpp"
#include "whatif/model/op_chains.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

namespace {

/// One launch of one graph.
struct Replay {
  std::uint32_t region = 0;
  Selection tasks = {};  ///< of the GPU, in order of their launches
};

/// What a module is given and gives, as the forward pass shows it.
struct Boundary {
  std::vector<std::int64_t> inputs, results;  ///< elements of each tensor
  std::size_t parameters = 0;
};

class GraphedRegions {
 public:
  GraphedRegions(Model& m, Draft& draft, const Dataflow& flow, const LayerRegions& regions)
      : m_(m), draft_(draft), flow_(flow), regions_(regions) {}

  Status apply() {
    find_boundaries();
    for (const Phase pass : {Phase::kForward, Phase::kBackward}) {
      const std::vector<Replay> replays = find_replays(pass);
      captured_ += replays.size();
      FORETRACE_TRY_VOID(remove_cpu_work(pass));
      std::set<std::uint32_t> seen;
      for (const Replay& r : replays) replay(r, pass, seen.insert(r.region).second);
    }
    if (captured_ == 0) {
      return fail(ErrorCode::kDeclined, "these layers already run from CUDA graphs, or launch no kernel of their own");
    }
    return {};
  }

 private:
  // The region of an operation or task; gradients of parameters are accumulated outside of any graph.
  [[nodiscard]] std::uint32_t region_of(std::uint32_t task) const {
    const EventId op = m_.graph.op[task];
    if (op.valid() && m_.trace->name(m_.chains->outermost(op.value)).find("AccumulateGrad") != std::string_view::npos)
      return kNone;
    return regions_.of(m_.graph, flow_, op.valid() ? op.value : kNone, task);
  }

  // What enters and leaves each region; the loss and all else outside is region kNone.
  void find_boundaries() {
    boundaries_.resize(regions_.names.size());
    std::vector<std::set<std::uint32_t>> inputs(boundaries_.size()), parameters(boundaries_.size());
    std::set<std::uint32_t> results;
    for (std::size_t u = 0; u < flow_.units.size(); ++u) {
      const std::uint32_t region = regions_.of_unit[u];
      for (const Input& in : flow_.units[u].inputs) {
        const std::uint32_t value = flow_.values[in.value].storage;
        const std::uint32_t producer = flow_.values[value].producer;
        if (producer == kNone) {
          if (region != kNone) parameters[region].insert(value);
          continue;
        }
        const std::uint32_t from = regions_.of_unit[producer];
        if (from == region) continue;
        if (region != kNone && inputs[region].insert(value).second) boundaries_[region].inputs.push_back(in.elements);
        if (from != kNone && results.insert(value).second) boundaries_[from].results.push_back(in.elements);
      }
    }
    for (std::size_t r = 0; r < boundaries_.size(); ++r) boundaries_[r].parameters = parameters[r].size();
  }

  // A module that runs again, behind others, is launched again.
  [[nodiscard]] std::vector<Replay> find_replays(Phase pass) const {
    const Graph& g = m_.graph;
    Selection order;
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      const bool mine = graph::is_gpu(g.kind[t]) && g.phase[t] == pass && g.launch[t].valid() && !draft_.removed(t);
      if (mine && !graph::is_graph_launch(g.task_name(g.launch[t].value))) order.push_back(t);
    }
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      return g.measured[g.launch[a].index()] < g.measured[g.launch[b].index()];
    });
    std::vector<Replay> found;
    std::uint32_t current = kNone;
    for (const std::uint32_t t : order) {
      const std::uint32_t region = region_of(t);
      if (region == kNone) {
        if (g.layer[t].valid() && !g.layers[g.layer[t].index()].synthetic) current = kNone;
        continue;
      }
      if (region != current) found.push_back({region});
      current = region;
      found.back().tasks.push_back(t);
    }
    return found;
  }

  // What the CPU did inside the modules goes; a task that works for no known operation belongs to what came before it.
  Status remove_cpu_work(Phase pass) {
    const Graph& g = m_.graph;
    Selection gone;
    for (const graph::GraphLane& lane : g.lanes) {
      if (lane.kind != graph::GraphLaneKind::kCpu) continue;
      bool inside = false;
      for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
        if (g.phase[t] != pass) {
          inside = false;
          continue;
        }
        if (g.op[t].valid()) inside = region_of(t) != kNone;
        if (!inside) continue;
        if (g.kind[t] == TaskKind::kWait && g.event[t].valid()) {
          return fail(ErrorCode::kDeclined,
                      fmt::format("inside these layers the CPU waits for the GPU ({}): that cannot be captured",
                                  g.task_name(t)));
        }
        if (is_allocator_call(g, t)) continue;
        if (g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall) gone.push_back(t);
      }
    }
    draft_.remove(gone);
    return {};
  }

  void replay(const Replay& r, Phase pass, bool first_time) {
    const Graph& g = m_.graph;
    const host::HostCosts& host = m_.host;
    const std::uint32_t first = r.tasks.front();
    Place at = place_before(g, first);
    const Boundary& boundary = boundaries_[r.region];
    const double called = host.python.function(static_cast<double>(boundary.parameters));
    at.cpu = draft_.insert_cpu(at.cpu, "a module played from a graph", m_.cpu_time(called, pass), pass);
    const work::Work* computes = m_.works.of(first);
    const std::int64_t width = computes != nullptr ? std::max<std::int64_t>(1, bytes_of(computes->dtype)) : 4;
    if (first_time) {
      for (const std::int64_t elements : pass == Phase::kForward ? boundary.inputs : boundary.results) {
        insert_work(m_, draft_, at, "copy into the graph's memory", work::memory_work(elements * width),
                    {.phase = pass, .layer = g.layer[first], .cpu_cost = m_.cpu_time(host.eager.op_us, pass)});
      }
    }
    const std::uint32_t call =
        draft_.insert_cpu(at.cpu, "cudaGraphLaunch", graph_launch_time(m_, r.tasks.size(), pass), pass);
    for (const std::uint32_t t : r.tasks) {
      draft_.set_launch(t, call, graph_latency(m_, pass));
      if (t != first) draft_.set_lane_lag(t, std::min(g.lane_lag[t], m_.latencies->graph_gap));
    }
  }

  Model& m_;
  Draft& draft_;
  const Dataflow& flow_;
  const LayerRegions& regions_;
  std::vector<Boundary> boundaries_;
  std::size_t captured_ = 0;
};

}  // namespace

Ns graph_launch_time(const Model& model, std::size_t nodes, Phase phase) {
  return model.cpu_time(model.host.cuda_graph.call_us + model.host.cuda_graph.node_us * static_cast<double>(nodes),
                        phase);
}

Ns graph_latency(const Model& model, Phase phase) {
  return graph_launch_time(model, 0, phase) + model.latencies->launch_latency;
}

Status graph_regions(Model& m, Draft& draft, const std::vector<std::string>& layers) {
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  FORETRACE_TRY(const LayerRegions regions, choose_regions(m, *flow, layers));
  FORETRACE_TRY_VOID(GraphedRegions(m, draft, *flow, regions).apply());
  return {};
}

}  // namespace foretrace::whatif
