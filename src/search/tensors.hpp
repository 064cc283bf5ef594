#pragma once
// Which operations to fuse, which gradients to reduce together and in how many parts: dPRO's search, on one graph.
//
// The graph holds one collective for every gradient. A plan changes costs only, so that every candidate is one incremental
// simulation: operations that are fused run in the place of the first one, gradients of one bucket are reduced in the place
// of the last one.
//
//   const TensorProblem& p = problem;
//   TensorResult r = search_tensors(p, start, {});        r.plan;  r.step;  r.evaluations;
//
// Moves are guided by the critical path (dPRO, Algorithm 1). On its computing part, two neighbours p, p' are fused where
// the reduction of p's gradient hides in what the fusion saves:      T1: q <= p + p' - fused(p, p')
// on its communicating part two reductions are joined where the earlier one would end late enough:
//                                                                    T2: end(q) > end(p') + sync(both) - sync(q')
// and a move on one is made on its partner too (T3). Each move is simulated before it is kept.
//
// Coarsened: gradients of one operation (weight and bias) are one. Symmetric: what is decided for one of several equal blocks
// is decided for all. Both make the search smaller; incremental simulation makes each evaluation cheaper.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "foretrace/graph/graph.hpp"
#include "simulate/incremental.hpp"

namespace foretrace::search {

struct TensorProblem {
  struct Operation {
    std::uint32_t task = 0;      ///< on the GPU
    std::uint32_t cpu = kNone;   ///< CPU work that goes when it is fused with the one before
    std::uint32_t twin = kNone;  ///< equal decisions for operations of one number
  };
  struct Tensor {
    std::uint32_t collective = 0;
    std::vector<std::uint32_t> per_bucket = {};  ///< CPU work done once a bucket, with its last gradient
    std::int64_t bytes = 0;
    std::uint32_t operation = kNone;  ///< index of the operation that makes it, where it is among them
    std::uint32_t unit = 0;           ///< coarsened: neighbours of equal number are one
    std::uint32_t twin = kNone;
  };

  const graph::Graph* graph = nullptr;
  std::vector<Operation> operations;  ///< in the order they run
  std::vector<Tensor> tensors;        ///< in the order of their lane
  /// Operations [first, last] as one kernel; nothing when they cannot be.
  std::function<std::optional<Ns>(std::uint32_t first, std::uint32_t last)> fused;
  /// A reduction of so many bytes in so many parts.
  std::function<Ns(std::int64_t bytes, int parts)> sync;
  std::vector<int> parts = {1};  ///< that may be chosen
};

struct TensorPlan {
  std::vector<std::uint8_t> fused_with_previous;   ///< by operation
  std::vector<std::uint8_t> joined_with_previous;  ///< by tensor
  std::vector<std::uint8_t> parts;                 ///< by tensor; that of a bucket's last one counts
  friend bool operator==(const TensorPlan&, const TensorPlan&) = default;
};
/// Nothing fused, every gradient reduced alone.
TensorPlan separate(const TensorProblem& problem);

struct TensorOptions {
  std::size_t evaluations = 20'000;  ///< at most
  std::uint64_t seed = 1;
  bool coarsened = true;
  bool symmetric = false;           ///< faster on very deep models, and blind to what only one of the blocks needs
  bool incremental = true;          ///< else every candidate is simulated in full
  bool assign = true;               ///< buckets by dynamic programming, where it applies
  int idle_rounds = 10;             ///< without gain, then it ends
  std::function<bool()> stop = {};  ///< asked between evaluations
};

struct TensorResult {
  TensorPlan plan;
  Ns step = 0;
  Ns first_step = 0;  ///< of the plan it began with
  std::size_t evaluations = 0;
};

/// Plans into costs and back into time.
class TensorEvaluator {
 public:
  TensorEvaluator(const TensorProblem& problem, bool incremental);
  [[nodiscard]] Ns evaluate(const TensorPlan& plan);
  /// The plan evaluated last becomes the one others are compared with.
  void accept();
  /// Times below are those of this plan, without counting as an evaluation; of the accepted one when there is none.
  void look_at(const TensorPlan* plan);
  [[nodiscard]] Ns start(std::uint32_t task) const;
  [[nodiscard]] Ns end(std::uint32_t task) const;
  /// When a collective could start if nothing ran before it on its lane.
  [[nodiscard]] Ns ready(std::uint32_t task) const;
  [[nodiscard]] std::uint32_t cause(std::uint32_t task) const;
  [[nodiscard]] std::size_t evaluations() const { return evaluations_; }
  [[nodiscard]] Ns sync(std::int64_t bytes, int parts);
  [[nodiscard]] std::int64_t bytes(std::size_t first, std::size_t last) const;

 private:
  void find_changes(const TensorPlan& plan);
  const TensorProblem& p_;
  bool incremental_;
  simulate::Incremental simulation_;
  std::vector<Ns> costs_;  ///< full simulations only
  std::vector<simulate::Change> changes_;
  std::vector<std::int64_t> bytes_before_;
  std::vector<std::vector<std::pair<std::int64_t, Ns>>> sync_cache_;
  std::size_t evaluations_ = 0;
};

/// Guided by the critical path.
TensorResult search_tensors(const TensorProblem& problem, const TensorPlan& start, const TensorOptions& options);
/// Simulated annealing over the same plans, with full simulations: a check of the other.
TensorResult anneal_tensors(const TensorProblem& problem, const TensorPlan& start, const TensorOptions& options);

}  // namespace foretrace::search
