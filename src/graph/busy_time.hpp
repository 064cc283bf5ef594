#pragma once
// The time in which a GPU is busy: the union of its tasks over all streams.

#include <algorithm>
#include <utility>
#include <vector>

#include "foretrace/graph/graph.hpp"

namespace foretrace::graph {

/// Time that at least one of the spans covers. They must be sorted by their begin.
inline Ns covered_time(const std::vector<std::pair<Ns, Ns>>& sorted) {
  Ns busy = 0;
  Ns until = INT64_MIN;
  for (const auto& [begin, end] : sorted) {
    busy += std::max<Ns>(0, end - std::max(begin, until));
    until = std::max(until, end);
  }
  return busy;
}

/// Time that the tasks of a graph for which `counts(task)` holds cover, as measured.
template <class Counts>
Ns busy_time(const Graph& g, Counts counts) {
  std::vector<std::pair<Ns, Ns>> work;
  for (std::size_t t = 0; t < g.size(); ++t) {
    if (counts(t)) work.emplace_back(g.measured[t], g.measured[t] + g.cost[t]);
  }
  std::sort(work.begin(), work.end());
  return covered_time(work);
}

}  // namespace foretrace::graph
