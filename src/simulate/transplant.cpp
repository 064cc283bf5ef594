#include "simulate/transplant.hpp"

#include <map>
#include <string_view>
#include <tuple>
#include <unordered_map>

namespace foretrace::simulate {

using graph::Graph;
using graph::GraphLane;

namespace {

// Lanes are the same when they are the same thread or stream; steps of other files spell thread ids differently, but a
// graph's first lane is always the main thread.
using LaneKey = std::tuple<graph::GraphLaneKind, bool, std::string_view>;

LaneKey key_of(const Graph& g, std::size_t lane) {
  const bool is_main = lane == g.main_lane;
  return {g.lanes[lane].kind, is_main, is_main ? std::string_view{} : g.strings[g.lanes[lane].name]};
}

/// Tasks of a lane, by kind and name, in order.
struct NameHash {
  std::size_t operator()(const std::pair<graph::TaskKind, std::string_view>& k) const {
    return std::hash<std::string_view>{}(k.second) * 8 + static_cast<std::size_t>(k.first);
  }
};
using ByName = std::unordered_map<std::pair<graph::TaskKind, std::string_view>, std::vector<std::uint32_t>, NameHash>;

ByName index(const Graph& g, const GraphLane& lane) {
  ByName tasks;
  for (std::uint32_t t = lane.begin; t < lane.end; ++t) tasks[{g.kind[t], g.task_name(t)}].push_back(t);
  return tasks;
}

}  // namespace

Transplant transplant(const Graph& g, const Graph& other) {
  Transplant out;
  out.cost.assign(g.cost.begin(), g.cost.end());
  out.match.assign(g.size(), kNone);
  std::map<LaneKey, std::size_t> lanes;
  for (std::size_t l = 0; l < other.lanes.size(); ++l) lanes.emplace(key_of(other, l), l);
  std::size_t taken = 0;
  for (std::size_t l = 0; l < g.lanes.size(); ++l) {
    const auto found = lanes.find(key_of(g, l));
    if (found == lanes.end()) continue;
    const ByName theirs = index(other, other.lanes[found->second]);
    std::unordered_map<std::pair<graph::TaskKind, std::string_view>, std::size_t, NameHash> next;
    for (std::uint32_t t = g.lanes[l].begin; t < g.lanes[l].end; ++t) {
      const std::pair key{g.kind[t], g.task_name(t)};
      const auto list = theirs.find(key);
      if (list == theirs.end()) continue;
      const std::size_t i = next[key]++;
      if (i >= list->second.size()) continue;
      out.match[t] = list->second[i];
      out.cost[t] = other.cost[list->second[i]];
      taken += other.cost[list->second[i]] > 0 ? 1U : 0U;
    }
  }
  for (std::size_t t = 0; t < g.size(); ++t) {
    out.unmatched += out.match[t] == kNone && g.cost[t] > 0 ? 1U : 0U;
  }
  for (std::size_t t = 0; t < other.size(); ++t) out.unmatched += other.cost[t] > 0 ? 1U : 0U;
  out.unmatched -= taken;
  return out;
}

}  // namespace foretrace::simulate
