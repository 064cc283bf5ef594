#include "whatif/rewrite/graph_regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "graph/call_roles.hpp"
#include "graph/latencies.hpp"
#include "hardware/cost.hpp"
#include "whatif/dataflow/layer_regions.hpp"
#include "whatif/dataflow/saved_tensors.hpp"
#include "whatif/model/op_chains.hpp"

namespace foretrace::whatif {

namespace {

/// One launch of one graph.
struct Replay {
  std::uint32_t region = 0;
  Selection tasks = {};  ///< of the GPU, in order of their launches
};

/// What a module is given and gives, as the forward pass shows it.
struct Border {
  std::vector<std::int64_t> inputs, results;  ///< elements of each tensor
  std::size_t parameters = 0;
};

class Regions {
 public:
  Regions(Model& m, Draft& draft, const Dataflow& flow, const LayerRegions& regions)
      : m_(m), draft_(draft), flow_(flow), regions_(regions) {}

  Status apply() {
    find_borders();
    for (const Phase pass : {Phase::kForward, Phase::kBackward}) {
      const std::vector<Replay> replays = find_replays(pass);
      captured_ += replays.size();
      FORETRACE_TRY_VOID(take_cpu(pass));
      std::set<std::uint32_t> seen;
      for (const Replay& r : replays) play(r, pass, seen.insert(r.region).second);
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

  void find_borders() {
    borders_.resize(regions_.names.size());
    std::vector<std::set<std::uint32_t>> inputs(borders_.size()), parameters(borders_.size());
    for (std::size_t u = 0; u < flow_.units.size(); ++u) {
      const std::uint32_t r = regions_.of_unit[u];
      if (r == kNone) continue;
      for (const Input& in : flow_.units[u].inputs) {
        const std::uint32_t from = flow_.values[in.value].storage;
        const std::uint32_t producer = flow_.values[from].producer;
        if (producer == kNone) {
          parameters[r].insert(from);
        } else if (regions_.of_unit[producer] != r && inputs[r].insert(from).second) {
          borders_[r].inputs.push_back(in.elements);
          if (const std::uint32_t other = regions_.of_unit[producer]; other != kNone)
            results_of(other, from, in.elements);
        }
      }
    }
    // What leaves a region for a unit of none, the loss among them.
    for (std::size_t u = 0; u < flow_.units.size(); ++u) {
      if (regions_.of_unit[u] != kNone) continue;
      for (const Input& in : flow_.units[u].inputs) {
        const std::uint32_t from = flow_.values[in.value].storage;
        const std::uint32_t producer = flow_.values[from].producer;
        if (producer != kNone && regions_.of_unit[producer] != kNone)
          results_of(regions_.of_unit[producer], from, in.elements);
      }
    }
    for (std::size_t r = 0; r < borders_.size(); ++r) borders_[r].parameters = parameters[r].size();
  }

  void results_of(std::uint32_t region, std::uint32_t value, std::int64_t elements) {
    if (results_.insert(value).second) borders_[region].results.push_back(elements);
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
  Status take_cpu(Phase pass) {
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
        if (g.kind[t] == TaskKind::kCpu || g.kind[t] == TaskKind::kCall) gone.push_back(t);
      }
    }
    draft_.remove(gone);
    return {};
  }

  void play(const Replay& r, Phase pass, bool first_time) {
    const Graph& g = m_.graph;
    const host::CpuPhase cpu = pass == Phase::kForward ? host::CpuPhase::kForward : host::CpuPhase::kBackward;
    const host::HostCosts& host = m_.host;
    const std::uint32_t first = r.tasks.front();
    Place at = place_beside(g, first, false);
    const Border& border = borders_[r.region];
    const double called = host.function_us + host.function_tensor_us * static_cast<double>(border.parameters);
    at.cpu = draft_.insert_cpu(at.cpu, "a module played from a graph", m_.cpu_time(called, cpu), pass);
    const work::Work* computes = m_.works.of(first);
    const std::int64_t width = computes != nullptr ? std::max<std::int64_t>(1, bytes_of(computes->dtype)) : 4;
    if (first_time) {
      for (const std::int64_t elements : pass == Phase::kForward ? border.inputs : border.results) {
        const work::Work copied = work::memory_work(elements * width);
        at.gpu = draft_.insert({.name = "copy into the graph's memory",
                                .cost = static_cast<Ns>(predict(copied, m_.device).ns),
                                .phase = pass,
                                .layer = g.layer[first],
                                .after_gpu = at.gpu,
                                .after_cpu = at.cpu,
                                .cpu_cost = m_.cpu_time(host.op_us, cpu),
                                .work = m_.works.add(copied)});
        at.cpu = at.gpu - 1;
      }
    }
    const std::uint32_t call =
        draft_.insert_cpu(at.cpu, "cudaGraphLaunch", graph_launch_time(m_, r.tasks.size(), cpu), pass);
    for (const std::uint32_t t : r.tasks) {
      draft_.set_launch(t, call, graph_latency(m_, cpu));
      if (t != first) draft_.set_lane_lag(t, std::min(g.lane_lag[t], graph::usual_latencies().graph_gap));
    }
  }

  Model& m_;
  Draft& draft_;
  const Dataflow& flow_;
  const LayerRegions& regions_;
  std::vector<Border> borders_;
  std::set<std::uint32_t> results_;
  std::size_t captured_ = 0;
};

}  // namespace

Ns graph_launch_time(const Model& model, std::size_t nodes, host::CpuPhase phase) {
  return model.cpu_time(model.host.graph_call_us + model.host.graph_node_us * static_cast<double>(nodes), phase);
}

Ns graph_latency(const Model& model, host::CpuPhase phase) {
  return graph_launch_time(model, 0, phase) + graph::usual_latencies().launch_latency;
}

Status graph_regions(Model& m, Draft& draft, const std::vector<std::string>& layers) {
  const std::shared_ptr<const Dataflow> flow = shared_flow(m);
  FORETRACE_TRY(const LayerRegions regions, choose_regions(m, *flow, layers));
  FORETRACE_TRY_VOID(Regions(m, draft, *flow, regions).apply());
  return {};
}

}  // namespace foretrace::whatif
