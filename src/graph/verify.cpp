#include <fmt/format.h>

#include <vector>

#include "foretrace/graph/graph.hpp"
#include "graph/task_row.hpp"

namespace foretrace::graph {

namespace {

tl::unexpected<Error> wrong(std::string message) {
  return fail(ErrorCode::kInternal, "the graph is not sound: " + std::move(message));
}

Status check_shape(const Graph& g) {
  const std::size_t n = g.size();
  bool equal = g.in_degree.size() == n && g.dep_begin.size() == n + 1;
  each_task_column([&](auto column) { equal = equal && (g.*column).size() == n; });
  if (!equal) return wrong("columns of different lengths");
  if (!g.priority.empty() && g.priority.size() != n) return wrong("columns of different lengths");
  if (!g.recorded.empty() && g.recorded.size() != n) return wrong("columns of different lengths");
  for (const std::size_t size : {g.dep_lag.size(), g.dep_point.size(), g.dep_kind.size()}) {
    if (size != g.dep_to.size()) return wrong("columns of dependencies of different lengths");
  }
  std::uint32_t at = 0;
  for (std::size_t l = 0; l < g.lanes.size(); ++l) {
    if (g.lanes[l].begin != at || g.lanes[l].end < at)
      return wrong(fmt::format("lane {} does not follow the one before", l));
    at = g.lanes[l].end;
  }
  if (at != n) return wrong("lanes do not cover all tasks");
  for (std::size_t t = 0; t < n; ++t) {
    if (g.cost[t] < 0) return wrong(fmt::format("task {} has a negative cost", t));
    if (g.lane[t] >= g.lanes.size() || t < g.lanes[g.lane[t]].begin || t >= g.lanes[g.lane[t]].end) {
      return wrong(fmt::format("task {} is not on its lane", t));
    }
    if (g.soft[t] != kNone &&
        (g.soft[t] >= g.soft_dependencies.size() || g.soft_dependencies[g.soft[t]].from.index() >= n)) {
      return wrong(fmt::format("task {} depends on a task that does not exist", t));
    }
    if (g.launch[t].valid() && g.launch[t].index() >= n) {
      return wrong(fmt::format("task {} is launched by a task that does not exist", t));
    }
    if (g.layer[t].valid() && g.layer[t].index() >= g.layers.size()) {
      return wrong(fmt::format("task {} belongs to a layer that does not exist", t));
    }
    if (g.dep_begin[t] > g.dep_begin[t + 1]) return wrong("dependencies out of order");
  }
  if (g.main_lane >= g.lanes.size()) return wrong("the main lane does not exist");
  if (g.copies == 0) return wrong("no copy of the step");
  for (const GraphLane& lane : g.lanes) {
    if ((lane.end - lane.begin) % g.copies != 0) return wrong("copies of different lengths");
  }
  if (g.dep_begin[n] != g.dep_to.size()) return wrong("dependencies out of order");
  for (const std::uint32_t to : g.dep_to) {
    if (to >= n) return wrong("a dependency leads to a task that does not exist");
  }
  for (const CarriedDependency& c : g.carried) {
    if (c.dependency.from >= n || c.dependency.to >= n || c.back == 0) {
      return wrong("a dependency between steps leads to a task that does not exist");
    }
  }
  if (!g.last.valid() || g.last.index() >= n) return wrong("the step has no end");
  return {};
}

// Going back from any task that never became ready, to one that keeps it from that, ends in the cycle.
std::string cycle_in(const Graph& g, const std::vector<std::uint32_t>& pending, std::uint32_t stuck) {
  struct Reason {
    std::uint32_t from = kNone;
    DependencyKind kind = DependencyKind::kNone;
  };
  std::vector<Reason> held(g.size());
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (pending[t] == 0) continue;
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) held[g.dep_to[d]] = {t, g.dep_kind[d]};
    const GraphLane& lane = g.lanes[g.lane[t]];
    if (!lane.by_priority && t + 1 < lane.end) held[t + 1] = {t, DependencyKind::kLane};
    if (const TaskId call = queued_behind(g, t); call.valid()) held[call.index()] = {t, DependencyKind::kQueue};
  }
  std::vector<std::uint8_t> seen(g.size(), 0);
  std::uint32_t at = stuck;
  while (seen[at] == 0 && held[at].from != kNone) {
    seen[at] = 1;
    at = held[at].from;
  }
  // Runs along a lane are one step of it.
  constexpr std::size_t kShown = 8;
  constexpr std::size_t kLongestName = 40;
  const auto named = [&](std::uint32_t t) { return fmt::format("{} ({})", t, g.task_name(t).substr(0, kLongestName)); };
  std::string text = named(at);
  std::uint32_t back = at;
  std::size_t shown = 0;
  do {
    const DependencyKind kind = held[back].kind;
    back = held[back].from;
    while (back != at && kind == DependencyKind::kLane && held[back].kind == kind) back = held[back].from;
    text += fmt::format(" <-{}- {}", to_string(kind), named(back));
  } while (back != at && ++shown < kShown);
  return text;
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
    const GraphLane& lane = g.lanes[g.lane[t]];
    if (!lane.by_priority && t + 1 < lane.end) release(t + 1);
    if (const TaskId call = queued_behind(g, t); call.valid()) release(call.value);
  }
  if (done != n) {
    for (std::uint32_t t = 0; t < n; ++t) {
      if (pending[t] > 0) return wrong("a cycle through task " + cycle_in(g, pending, t));
    }
  }
  return {};
}

}  // namespace foretrace::graph
