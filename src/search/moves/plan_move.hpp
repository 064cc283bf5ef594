#pragma once
// Moves on a plan of operations and gradients: each looks at the critical path of the current plan and proposes edits.
// One file each; the list is in plan_moves.cpp.

#include <string>
#include <vector>

#include "search/tensors.hpp"

namespace foretrace::search {

struct Edit {
  enum What : std::uint8_t { kFuse, kJoin, kParts };
  What what;
  std::uint32_t index;  ///< operation or tensor; kFuse and kJoin: whether it goes with the one before
  std::uint8_t value;
};
using Edits = std::vector<Edit>;

struct PlanView {
  const TensorProblem& problem;
  TensorEvaluator& now;  ///< holds the times of `plan`
  const TensorPlan& plan;
  const TensorOptions& options;
  std::vector<std::uint32_t> operations;  ///< on the critical path, in order
  std::vector<std::uint32_t> tensors;     ///< whose reduction is on it

  /// First and last tensor of the bucket that holds i.
  [[nodiscard]] std::uint32_t first_of_bucket(std::uint32_t i) const;
  [[nodiscard]] std::uint32_t last_of_bucket(std::uint32_t i) const;
};

struct PlanMove {
  std::string name;
  std::string about;
  std::string may_break;
  void (*propose)(const PlanView& view, std::vector<Edits>& out);
};

PlanMove fuse_operations_move();
PlanMove fuse_tensors_move();
PlanMove partition_tensors_move();
PlanMove assign_buckets_move();

const std::vector<PlanMove>& plan_moves();

/// Does an edit, with all its twins where the search is symmetric.
void apply(const TensorProblem& problem, const TensorOptions& options, const Edits& edits, TensorPlan& plan);

}  // namespace foretrace::search
