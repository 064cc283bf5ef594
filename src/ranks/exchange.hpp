#pragma once
// The costs of a rank's tasks if it ran as fast as another rank that does the same work.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "foretrace/base/types.hpp"

namespace foretrace::ranks {

/// Every task of `mine` and its cost on the other rank. Both are maps from what a task is to the tasks of that kind, in order: the n-th of one
/// rank is the n-th of the other. What has no partner is work the other rank does otherwise (a library chose another kernel) or
/// not at all: together it costs what the other rank's work without a partner costs, and at most what it costs here.
///
///   mine: gemm 5, 5; extra 8     theirs: gemm 3; conv 2, 2     gemm 3; the other gemm and extra share 4: 5 * 4 / 13 and 8 * 4 / 13
template <class Index, class Costs>
std::vector<std::pair<std::uint32_t, Ns>> exchange(const Index& mine, const Costs& cost, const Index& theirs,
                                                   const Costs& other) {
  std::vector<std::pair<std::uint32_t, Ns>> out;
  std::vector<std::uint32_t> alone;
  Ns left = 0;  // of the other rank's work, what has no partner
  for (const auto& [key, tasks] : theirs) {
    for (const std::uint32_t t : tasks) left += other[t];
  }
  for (const auto& [key, tasks] : mine) {
    const auto list = theirs.find(key);
    const std::size_t pairs = list == theirs.end() ? 0 : std::min(tasks.size(), list->second.size());
    for (std::size_t i = 0; i < pairs; ++i) {
      out.emplace_back(tasks[i], other[list->second[i]]);
      left -= other[list->second[i]];
    }
    alone.insert(alone.end(), tasks.begin() + static_cast<std::ptrdiff_t>(pairs), tasks.end());
  }
  double own = 0;
  for (const std::uint32_t t : alone) own += static_cast<double>(cost[t]);
  const double share = own > 0 ? std::clamp(static_cast<double>(left) / own, 0.0, 1.0) : 1;
  for (const std::uint32_t t : alone) out.emplace_back(t, static_cast<Ns>(static_cast<double>(cost[t]) * share));
  return out;
}

}  // namespace foretrace::ranks
