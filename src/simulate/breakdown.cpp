#include <algorithm>
#include <vector>

#include "foretrace/simulate/simulate.hpp"

namespace foretrace::simulate {

using graph::DependencyKind;
using graph::Graph;
using graph::TaskKind;

namespace {

// Loading data is CPU work, counted once more; waiting for a batch is none.
enum Resource : std::uint8_t { kCpuWork, kGpuWork, kCommWork, kLoading, kBatchWait, kResources };

struct Edge {
  Ns time;
  std::uint8_t resource;
  std::int8_t change;
};

Resource resource_of(TaskKind kind) {
  if (kind == TaskKind::kCollective) return kCommWork;
  return graph::is_gpu(kind) ? kGpuWork : kCpuWork;
}

// The window of the step in the timeline: all of it, or the last copy.
void window(const Timeline& t, Ns& begin, Ns& end) {
  begin = t.copy_ends.size() > 1 ? t.copy_ends[t.copy_ends.size() - 2] : 0;
  end = begin + t.step;
}

// Threads that nothing waits for (watchdogs) show up as busy without working for the step.
std::vector<char> lanes_that_count(const Graph& g) {
  std::vector<char> counts(g.lanes.size(), 0);
  for (std::uint32_t l = 0; l < g.lanes.size(); ++l) {
    counts[l] = g.lanes[l].kind != graph::GraphLaneKind::kCpu || l == g.main_lane ? 1 : 0;
  }
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (g.launch[t].valid()) counts[g.lane[g.launch[t].index()]] = 1;
  }
  return counts;
}

void sweep(const Graph& g, const Timeline& t, Ns begin, Ns end, Breakdown& b) {
  const std::vector<char> counts = lanes_that_count(g);
  std::vector<Edge> edges;
  for (std::size_t i = 0; i < g.size(); ++i) {
    if (counts[g.lane[i]] == 0) continue;
    if (g.kind[i] == TaskKind::kWait && g.phase[i] == graph::Phase::kData && !g.event[i].valid() &&
        g.lane[i] == g.main_lane && !g.first_of_lane(i)) {
      // A wait takes no time: it is over when the batch is there.
      const Ns since = std::max(t.end[i - 1], begin);
      const Ns until = std::min(t.start[i], end);
      if (until > since) {
        edges.push_back({since, kBatchWait, 1});
        edges.push_back({until, kBatchWait, -1});
      }
    }
    const Ns from = std::max(t.start[i], begin);
    const Ns to = std::min(t.end[i], end);
    if (to <= from) continue;
    const std::uint8_t r = resource_of(g.kind[i]);
    edges.push_back({from, r, 1});
    edges.push_back({to, r, -1});
    if (r != kCpuWork || g.phase[i] != graph::Phase::kData || g.lane[i] != g.main_lane) continue;
    edges.push_back({from, kLoading, 1});
    edges.push_back({to, kLoading, -1});
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& c) { return a.time < c.time; });
  int active[kResources] = {};
  Ns at = begin;
  const auto account = [&](Ns until) {
    const Ns span = until - at;
    at = until;
    if (span <= 0) return;
    const bool cpu = active[kCpuWork] > 0;
    const bool gpu = active[kGpuWork] > 0;
    const bool comm = active[kCommWork] > 0;
    b.cpu_busy += cpu ? span : 0;
    b.gpu_busy += gpu ? span : 0;
    b.communication += comm ? span : 0;
    if (gpu && cpu) {
      b.both += span;
    } else if (gpu) {
      b.gpu_only += span;
    } else if (comm) {
      b.exposed_communication += span;
    } else if (cpu) {
      b.cpu_only += span;
      if (active[kLoading] > 0) b.exposed_loading += span;
    } else {
      b.idle += span;
      if (active[kBatchWait] > 0) b.exposed_loading += span;
    }
  };
  for (const Edge& e : edges) {
    account(e.time);
    active[e.resource] += e.change;
  }
  account(end);
}

// Where no computation runs on the GPU, the next task to start shows what was missing.
void idle_causes(const Graph& g, const Timeline& t, Ns begin, Ns end, Breakdown& b) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 0; i < g.size(); ++i) {
    if (resource_of(g.kind[i]) == kGpuWork && t.end[i] > begin && t.start[i] < end) order.push_back(i);
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t c) {
    return t.start[a] != t.start[c] ? t.start[a] < t.start[c] : a < c;
  });
  Ns busy_until = begin;
  for (const std::uint32_t i : order) {
    const Ns gap = std::min(t.start[i], end) - busy_until;
    if (gap > 0) b.gpu_idle_by_cause[static_cast<std::size_t>(t.cause_kind[i])] += gap;
    busy_until = std::max(busy_until, t.end[i]);
  }
  // What follows the last task is CPU time: the end of the step waits for nothing on the GPU.
  if (end > busy_until) b.gpu_idle_by_cause[static_cast<std::size_t>(DependencyKind::kNone)] += end - busy_until;
}

void path_shares(const Graph& g, const Timeline& t, Ns begin, Ns end, Breakdown& b) {
  Ns at = begin;
  for (const PathStep& p : critical_path(g, t)) {
    const Ns start = std::clamp(t.start[p.task], begin, end);
    if (t.end[p.task] <= begin) continue;
    b.path_waits += std::max<Ns>(0, start - at);
    const Ns from = std::max(start, at);
    // A task that lets the next one go early may itself outlast the step.
    const Ns until = std::min(t.end[p.task], end);
    const Ns cost = std::max<Ns>(0, until - from);
    at = std::max(at, until);
    const Resource on = resource_of(g.kind[p.task]);
    (on == kCommWork ? b.path_communication : on == kGpuWork ? b.path_gpu : b.path_cpu) += cost;
  }
}

}  // namespace

Breakdown breakdown(const Graph& graph, const Timeline& timeline) {
  Breakdown b;
  Ns begin = 0;
  Ns end = 0;
  window(timeline, begin, end);
  b.step = end - begin;
  sweep(graph, timeline, begin, end, b);
  idle_causes(graph, timeline, begin, end, b);
  path_shares(graph, timeline, begin, end, b);
  return b;
}

LowerBounds lower_bounds(const Graph& graph) {
  const auto without = [&](auto drop) {
    std::vector<Ns> cost(graph.cost.begin(), graph.cost.end());
    for (std::size_t t = 0; t < graph.size(); ++t) {
      if (drop(graph.kind[t])) cost[t] = 0;
    }
    return steady_state(graph, {cost, nullptr}).timeline.step;
  };
  return {without([](TaskKind k) { return graph::is_gpu(k) && k != TaskKind::kCollective; }),
          without([](TaskKind k) { return k == TaskKind::kCollective; }),
          without([](TaskKind k) { return !graph::is_gpu(k); })};
}

}  // namespace foretrace::simulate
