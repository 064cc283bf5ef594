#include "graph/soundness.hpp"

#include <algorithm>

namespace foretrace::graph {

namespace {

/// Tasks on a cycle, or between two: what is left when everything that could run has run, and then everything that nothing left
/// waits for.
std::vector<std::uint8_t> on_cycles(const Graph& g) {
  const auto n = static_cast<std::uint32_t>(g.size());
  const auto each_waiting = [&](std::uint32_t t, const auto& visit) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) visit(g.dep_to[d]);
    const GraphLane& lane = g.lanes[g.lane[t]];
    if (!lane.by_priority && t + 1 < lane.end) visit(t + 1);
    if (const TaskId call = queued_behind(g, t); call.valid()) visit(call.value);
  };
  std::vector<std::uint8_t> left(n, 1);
  std::vector<std::uint32_t> pending(g.in_degree.begin(), g.in_degree.end());
  std::vector<std::uint32_t> ready;
  for (std::uint32_t t = 0; t < n; ++t) {
    if (pending[t] == 0) ready.push_back(t);
  }
  while (!ready.empty()) {
    const std::uint32_t t = ready.back();
    ready.pop_back();
    left[t] = 0;
    each_waiting(t, [&](std::uint32_t to) {
      if (--pending[to] == 0) ready.push_back(to);
    });
  }
  std::vector<std::vector<std::uint32_t>> waits_for(n);
  std::vector<std::uint32_t> waited_for(n, 0);
  for (std::uint32_t t = 0; t < n; ++t) {
    if (left[t] == 0) continue;
    each_waiting(t, [&](std::uint32_t to) {
      if (left[to] == 0) return;
      waits_for[to].push_back(t);
      ++waited_for[t];
    });
    if (waited_for[t] == 0) ready.push_back(t);
  }
  while (!ready.empty()) {
    const std::uint32_t t = ready.back();
    ready.pop_back();
    left[t] = 0;
    for (const std::uint32_t from : waits_for[t]) {
      if (--waited_for[from] == 0) ready.push_back(from);
    }
  }
  return left;
}

}  // namespace

Status verify_or_relax(Graph& g) {
  Status sound = verify(g);
  if (sound || g.soft_dependencies.empty()) return sound;
  const std::vector<std::uint8_t> cycles = on_cycles(g);
  std::vector<SoftDependency> kept;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (g.soft[t] == kNone) continue;
    const SoftDependency share = g.soft_dependencies[g.soft[t]];
    const bool contradicts = cycles[t] != 0 && cycles[share.from.index()] != 0;
    g.soft[t] = contradicts ? kNone : static_cast<std::uint32_t>(kept.size());
    if (contradicts) {
      ++g.notes.dropped_soft;
    } else {
      kept.push_back(share);
    }
  }
  g.soft_dependencies = std::move(kept);
  std::vector<Dependency> firm;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      if (g.dep_kind[d] != DependencyKind::kShare)
        firm.push_back({t, g.dep_to[d], g.dep_lag[d], g.dep_point[d], g.dep_kind[d]});
    }
  }
  finish(g, std::move(firm));
  return verify(g);
}

bool runs_out_of_order(const Graph& g) {
  for (const GraphLane& lane : g.lanes) {
    if (lane.kind != GraphLaneKind::kGpu) continue;
    Ns latest = INT64_MIN;
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (!g.launch[t].valid()) continue;
      const Ns called = g.measured[g.launch[t].index()];
      if (called < latest) return true;
      latest = called;
    }
  }
  return false;
}

}  // namespace foretrace::graph
