#pragma once
// Sets of time intervals: sorted and disjoint.

#include <algorithm>
#include <utility>
#include <vector>

#include "foretrace/base/types.hpp"

namespace foretrace::ranks {

using Intervals = std::vector<std::pair<Ns, Ns>>;

inline Intervals united(Intervals all) {
  std::sort(all.begin(), all.end());
  std::size_t kept = 0;
  for (const auto& [begin, end] : all) {
    if (end <= begin) continue;
    if (kept > 0 && begin <= all[kept - 1].second) {
      all[kept - 1].second = std::max(all[kept - 1].second, end);
    } else {
      all[kept++] = {begin, end};
    }
  }
  all.resize(kept);
  return all;
}

/// Of two united sets: `a` without `b`.
inline Intervals without(const Intervals& a, const Intervals& b) {
  Intervals out;
  std::size_t j = 0;
  for (auto [begin, end] : a) {
    while (j < b.size() && b[j].second <= begin) ++j;
    for (std::size_t k = j; k < b.size() && b[k].first < end; ++k) {
      if (b[k].first > begin) out.emplace_back(begin, b[k].first);
      begin = std::max(begin, b[k].second);
    }
    if (begin < end) out.emplace_back(begin, end);
  }
  return out;
}

inline Ns length(const Intervals& of) {
  Ns sum = 0;
  for (const auto& [begin, end] : of) sum += end - begin;
  return sum;
}

}  // namespace foretrace::ranks
