#pragma once
// The time in which a GPU does something: the union of its tasks, however many streams they run on.

#include <algorithm>
#include <utility>
#include <vector>

#include "foretrace/base/types.hpp"

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

}  // namespace foretrace::graph
