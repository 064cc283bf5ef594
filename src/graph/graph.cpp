#include "foretrace/graph/graph.hpp"

#include <array>

namespace foretrace::graph {

std::string_view to_string(TaskKind kind) {
  constexpr std::array<std::string_view, 8> kNames = {"begin",  "cpu",    "call",   "wait",
                                                      "kernel", "memcpy", "memset", "collective"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(DependencyKind kind) {
  constexpr std::array<std::string_view, kDependencyKinds> kNames = {
      "none", "lane", "launch", "queue", "sync", "stream-wait", "share", "graph", "thread", "border", "collective"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::string_view to_string(Phase phase) {
  constexpr std::array<std::string_view, kPhases> kNames = {"forward",       "backward", "optimizer",
                                                            "communication", "data",     "other"};
  return kNames[static_cast<std::size_t>(phase)];
}

namespace {

// Kahn's algorithm, which goes on along a lane as long as it can: runs are long, and memory is read in order.
void find_order(Graph& g) {
  g.order.clear();
  std::vector<std::uint32_t> pending(g.in_degree.begin(), g.in_degree.end());
  std::vector<std::uint32_t> ready;
  for (std::uint32_t t = static_cast<std::uint32_t>(g.size()); t-- > 0;) {
    if (pending[t] == 0) ready.push_back(t);
  }
  const auto release = [&](std::uint32_t t) {
    if (--pending[t] == 0) ready.push_back(t);
  };
  while (!ready.empty()) {
    std::uint32_t t = ready.back();
    ready.pop_back();
    const GraphLane& lane = g.lanes[g.lane[t]];
    TaskRun run{t, t};
    for (bool goes_on = true; goes_on; ++t) {
      for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) release(g.dep_to[d]);
      if (const TaskId call = queued_behind(g, t); call.valid()) release(call.value);
      run.end = t + 1;
      goes_on = !lane.by_priority && t + 1 < lane.end && --pending[t + 1] == 0;
    }
    g.order.push_back(run);
  }
}

}  // namespace

void finish(Graph& g, std::vector<Dependency> all) {
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.soft[t] == kNone) continue;
    all.push_back({g.soft_dependencies[g.soft[t]].from.value, t, 0, 0, DependencyKind::kShare});
  }
  const std::size_t n = g.size();
  g.dep_begin.clear();
  g.dep_begin.resize(n + 1, 0);
  g.in_degree.clear();
  g.in_degree.resize(n, 0);
  for (const Dependency& d : all) {
    ++g.dep_begin[d.from + 1];
    ++g.in_degree[d.to];
  }
  for (std::size_t i = 1; i <= n; ++i) g.dep_begin[i] += g.dep_begin[i - 1];
  g.dep_to.resize(all.size());
  g.dep_lag.resize(all.size());
  g.dep_point.resize(all.size());
  g.dep_kind.resize(all.size());
  std::vector<std::uint32_t> at(g.dep_begin.begin(), g.dep_begin.end() - 1);
  for (const Dependency& d : all) {
    const std::uint32_t i = at[d.from]++;
    g.dep_to[i] = d.to;
    g.dep_lag[i] = d.lag;
    g.dep_point[i] = d.point;
    g.dep_kind[i] = d.kind;
  }
  for (const GraphLane& lane : g.lanes) {
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (t > lane.begin && !lane.by_priority) ++g.in_degree[t];
      if (const TaskId call = queued_behind(g, t); call.valid()) ++g.in_degree[call.index()];
    }
  }
  find_order(g);
}

}  // namespace foretrace::graph
