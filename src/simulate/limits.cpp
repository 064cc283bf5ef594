#include <algorithm>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "foretrace/simulate/simulate.hpp"
#include "trace/device_times.hpp"

namespace foretrace::simulate {

using graph::DependencyKind;
using graph::Graph;

namespace {

// Two copies in front of the one that counts: by then every lane follows its own end.
constexpr std::uint32_t kCopies = 3;

Ns period_of(const Graph& repeated, bool cpu, bool gpu) {
  std::vector<Ns> cost(repeated.cost.begin(), repeated.cost.end());
  for (std::size_t t = 0; t < cost.size(); ++t) {
    if (!(graph::is_gpu(repeated.kind[t]) ? gpu : cpu)) cost[t] = 0;
  }
  Options options;
  options.cost = cost;
  return simulate(repeated, options).step;
}

// The same tasks in the same order with the distances that have a name: hand-overs between threads and the device's own gaps.
// `cpu`: a thread's distances to what it did before, too.
Graph with_named_distances(Graph g, bool cpu) {
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t])) {
      g.lane_lag[t] = std::min(g.lane_lag[t], trace::kLongestLatency);
    } else if (!cpu) {
      g.lane_lag[t] = std::min<Ns>(g.lane_lag[t], 0);
    }
  }
  for (std::size_t d = 0; d < g.dependencies(); ++d) {
    const DependencyKind kind = g.dep_kind[d];
    if (kind == DependencyKind::kThread) continue;
    const bool on_gpu = kind == DependencyKind::kStreamWait || kind == DependencyKind::kGraph;
    g.dep_lag[d] = std::min<Ns>(g.dep_lag[d], on_gpu ? trace::kLongestLatency : 0);
  }
  for (graph::SoftDependency& soft : g.soft_dependencies) soft.lag = std::min(soft.lag, trace::kLongestLatency);
  return g;
}

}  // namespace

Ns frozen_time(const Graph& graph) { return period_of(graph::repeat(graph, kCopies), false, false); }

std::vector<LongLag> long_lags(const Graph& g) {
  std::vector<LongLag> out;
  const auto add = [&](std::uint32_t from, std::uint32_t to, DependencyKind kind, Ns lag) {
    const bool own_pace = kind == DependencyKind::kBorder && !graph::is_gpu(g.kind[to]);
    if (lag > trace::kLongestWake && kind != DependencyKind::kThread && !own_pace) out.push_back({from, to, kind, lag});
  };
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!g.first_of_lane(t)) add(t - 1, t, DependencyKind::kLane, g.lane_lag[t]);
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] != DependencyKind::kShare) add(t, g.dep_to[d], g.dep_kind[d], g.dep_lag[d]);
    }
    if (g.soft[t] == kNone) continue;
    const graph::SoftDependency& soft = g.soft_dependencies[g.soft[t]];
    add(soft.from.value, t, DependencyKind::kShare, soft.lag);
  }
  for (const graph::CarriedDependency& c : g.carried) {
    add(c.dependency.from, c.dependency.to, c.dependency.kind, c.dependency.lag);
  }
  std::stable_sort(out.begin(), out.end(), [](const LongLag& a, const LongLag& b) { return a.lag > b.lag; });
  return out;
}

Limits limits(const Graph& graph, Ns step) {
  const Graph repeated = graph::repeat(graph, kCopies);
  Limits out;
  out.step = step;
  out.frozen = period_of(repeated, false, false);
  out.cpu_free = period_of(repeated, false, true);
  out.gpu_free = period_of(repeated, true, false);
  out.gpu_path = period_of(with_named_distances(repeated, false), false, true);
  out.cpu_work = period_of(with_named_distances(repeated, true), true, false);
  return out;
}

}  // namespace foretrace::simulate
