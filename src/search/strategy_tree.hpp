#pragma once
// Many strategies predicted at once. The strategies of a search begin alike ("amp + compile + …"), so they are laid out as a
// tree of changes, and each change is applied once for everything behind it. A branch does not know of the others: the answers
// are those of one prediction after the other, on any number of threads.
//
//   StrategyTree tree(base);
//   std::vector<whatif::Prediction> p = tree.predict({{amp, Detail::kStepOnly}, {amp_compile, Detail::kFull}}, threads);

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/search/optimize.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::search {

class StrategyTree {
 public:
  struct Question {
    Strategy strategy;
    whatif::Detail detail = whatif::Detail::kStepOnly;
  };
  /// Called with the number of a question that was not declined and the model it led to, on any thread.
  using Look = std::function<void(std::size_t question, const whatif::Model& changed)>;

  /// `base` must outlive it. Models with up to so many tasks together are kept between questions: some 250 bytes for each
  /// task with what describes it.
  explicit StrategyTree(const analysis::Baseline& base, std::size_t keep_tasks = 500'000);
  ~StrategyTree();
  StrategyTree(const StrategyTree&) = delete;
  StrategyTree& operator=(const StrategyTree&) = delete;

  /// As predict_strategy would answer each, without the graph. What was applied for earlier questions is used again as far
  /// as it is still kept.
  std::vector<whatif::Prediction> predict(const std::vector<Question>& questions, unsigned threads,
                                          const Look& look = {});

 private:
  struct Node;
  class Walk;
  static Node& node_of(Node& parent, const whatif::Use& use);
  void keep(Node& node);
  void unkeep(Node& node);

  const whatif::Model& model_;
  whatif::Predictor predictor_;
  std::unique_ptr<Node> root_;
  std::deque<Node*> kept_;  ///< nodes nobody waits for whose models are still there, the longest unused first
  std::size_t kept_tasks_ = 0;
  std::size_t keep_tasks_;
};

/// All of a strategy is uses: its what-ifs, and the workers behind them.
Result<std::vector<whatif::Use>> all_uses(const whatif::Model& model, const Strategy& strategy);

}  // namespace foretrace::search
