#pragma once
// What a search compares strategies by.

#include <map>

#include "foretrace/search/optimize.hpp"
#include "search/strategy_tree.hpp"

namespace foretrace::search {

/// Bytes the allocator may reserve for a strategy: what was asked for, else the device's memory less what the driver keeps; none where unknown.
std::optional<std::int64_t> memory_limit(const whatif::Model& model, std::optional<std::int64_t> asked);

/// Predicts strategies of one step for searches that follow each other, and remembers what each gave: they ask for many of them
/// again. What a strategy gives never changes, so nothing that is known becomes wrong.
class Evaluator {
 public:
  /// `base` must outlive it. What a strategy reserves is asked where its peak does not say that it stays below `limit`: a
  /// replay of the allocator costs as much as one of the step.
  Evaluator(const analysis::Baseline& base, unsigned threads, std::optional<std::int64_t> limit)
      : base_(base), tree_(base), threads_(threads), limit_(limit) {}

  [[nodiscard]] const analysis::Baseline& base() const { return base_; }

  std::vector<Evaluation> evaluate(const std::vector<Strategy>& strategies);
  /// In full where the question says so; evaluations are remembered all the same.
  std::vector<whatif::Prediction> predict(const std::vector<StrategyTree::Question>& questions,
                                          const StrategyTree::Look& look = {});

 private:
  [[nodiscard]] std::optional<std::int64_t> reserved_where_it_decides(const whatif::Model& changed) const;

  const analysis::Baseline& base_;
  StrategyTree tree_;
  unsigned threads_;
  std::optional<std::int64_t> limit_;
  std::map<std::string, Evaluation> known_;  ///< by key_of
};

/// The search of optimize.hpp with predictions of somebody who makes more of them. `options.threads` is the evaluator's.
Result<Optimized> optimize(Evaluator& evaluator, const OptimizeOptions& options);

}  // namespace foretrace::search
