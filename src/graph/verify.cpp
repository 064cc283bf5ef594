#include <fmt/format.h>

#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInternal, "the graph is not sound: " + std::move(message));
}

Status check_shape(const Graph& g) {
  const std::size_t n = g.size();
  if (g.cost.size() != n || g.lane.size() != n || g.lane_lag.size() != n || g.soft.size() != n ||
      g.launch.size() != n || g.in_degree.size() != n || g.dep_begin.size() != n + 1) {
    return wrong("columns of different lengths");
  }
  std::uint32_t at = 0;
  for (std::size_t l = 0; l < g.lanes.size(); ++l) {
    if (g.lanes[l].begin != at || g.lanes[l].end < at) return wrong(fmt::format("lane {} does not follow the one before", l));
    at = g.lanes[l].end;
  }
  if (at != n) return wrong("lanes do not cover all tasks");
  for (std::size_t t = 0; t < n; ++t) {
    if (g.cost[t] < 0) return wrong(fmt::format("task {} has a negative cost", t));
    if (g.lane[t] >= g.lanes.size() || t < g.lanes[g.lane[t]].begin || t >= g.lanes[g.lane[t]].end) {
      return wrong(fmt::format("task {} is not on its lane", t));
    }
    if (g.soft[t] != Graph::kNoSoft && (g.soft[t] >= g.soft_dependencies.size() ||
                                        g.soft_dependencies[g.soft[t]].from.index() >= n)) {
      return wrong(fmt::format("task {} depends on a task that does not exist", t));
    }
    if (g.dep_begin[t] > g.dep_begin[t + 1]) return wrong("dependencies out of order");
  }
  if (g.dep_begin[n] != g.dep_to.size()) return wrong("dependencies out of order");
  for (const std::uint32_t to : g.dep_to) {
    if (to >= n) return wrong("a dependency leads to a task that does not exist");
  }
  if (!g.last.valid() || g.last.index() >= n) return wrong("the step has no end");
  return {};
}

}  // namespace

Status verify(const Graph& g) {
  FORETRACE_TRY_VOID(check_shape(g));
  // Kahn's algorithm over every reason to wait, the implicit ones included. What is left over is a cycle.
  const std::size_t n = g.size();
  std::vector<std::uint32_t> pending(g.in_degree.begin(), g.in_degree.end());
  std::vector<std::uint32_t> ready;
  for (std::uint32_t t = 0; t < n; ++t) {
    if (pending[t] == 0) ready.push_back(t);
  }
  std::size_t done = 0;
  const auto release = [&](std::uint32_t t) {
    if (pending[t]-- == 1) ready.push_back(t);
  };
  while (!ready.empty()) {
    const std::uint32_t t = ready.back();
    ready.pop_back();
    ++done;
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) release(g.dep_to[d]);
    if (t + 1 < g.lanes[g.lane[t]].end) release(t + 1);
    if (const TaskId call = queued_behind(g, t); call.valid()) release(call.value);
  }
  if (done != n) {
    for (std::uint32_t t = 0; t < n; ++t) {
      if (pending[t] > 0) return wrong(fmt::format("a cycle through task {} ({})", t, g.task_name(t)));
    }
  }
  return {};
}

}  // namespace foretrace::graph
