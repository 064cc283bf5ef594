#pragma once
// The position of GPU work among the allocator's events, matched by their times in the trace.

#include <cstdint>
#include <utility>
#include <vector>

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// Of a model with a memory curve.
class MemoryPositions {
 public:
  explicit MemoryPositions(const Model& model);
  /// Behind what was allocated before the launch of this task; 0 where the trace does not show the launch.
  [[nodiscard]] std::uint32_t of(std::uint32_t task) const;
  /// Of what is allocated from this time on, since the step's begin.
  [[nodiscard]] std::uint32_t at(Ns since_begin) const;

 private:
  const graph::Graph& g_;
  Ns begin_ = 0;                                     // of the step, in the time of the trace
  std::vector<std::pair<Ns, std::uint32_t>> known_;  // when something was allocated, and its position
};

}  // namespace foretrace::whatif
