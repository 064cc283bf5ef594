#pragma once
// How a model is cut into the stages of a pipeline.
//
//   FORETRACE_TRY(const std::vector<Stage> stages, cut(plan, parts, 32, 4));      // 8 blocks each
//
// `balance=layers`: equal numbers of blocks, as most programs cut a model. `balance=time`: blocks where the time of the longest stage is
// shortest, with the embedding in the first and the head in the last. `stages=9|8|8|7`: as the program does.

#include <vector>

#include "plan/parts.hpp"
#include "plan/plan.hpp"

namespace foretrace::plan {

/// What one stage holds of the model.
struct Stage {
  int blocks = 0;
  bool first = false, last = false;

  /// A figure of its parts, added up.
  [[nodiscard]] double sum(const Parts& p, double (*of)(const Part&)) const;
  /// The largest of its parts'.
  [[nodiscard]] double most(const Parts& p, double (*of)(const Part&)) const;
  /// Whether it holds a copy of the embedding's weight for the head.
  [[nodiscard]] bool copies_embedding(const Parts& p) const { return last && !first && p.tied > 0; }
};

/// Declined where there are fewer blocks than stages, or the plan's own numbers are not those of the model.
Result<std::vector<Stage>> cut(const Plan& plan, const Parts& parts, int layers, std::uint32_t stages);

}  // namespace foretrace::plan
