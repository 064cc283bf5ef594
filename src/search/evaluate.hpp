#pragma once
// Predictions of many strategies of one step. The strategies of a search share prefixes ("amp + compile + …"), so the model of
// every prefix is kept and shared: each change is applied once for all strategies that continue from there. The answers equal
// those of separate predictions, on any number of threads.
//
//   Evaluator evaluator(base, threads, limit);
//   std::vector<whatif::Prediction> p = evaluator.predict({{amp, Detail::kStepOnly}, {amp_compile, Detail::kFull}});

#include <cstddef>
#include <functional>
#include <future>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "foretrace/search/optimize.hpp"
#include "whatif/predict/predictor.hpp"

namespace foretrace::search {

/// Bytes the allocator may reserve for a strategy: the user's limit, else the device's memory without the driver's share;
/// nothing where neither is known.
std::optional<std::int64_t> memory_limit(const whatif::Model& model, std::optional<std::int64_t> asked);

class Evaluator {
 public:
  struct Question {
    Strategy strategy;
    whatif::Detail detail = whatif::Detail::kStepOnly;
  };
  /// Called with the index of a question that was not declined and the changed model, on any thread.
  using Look = std::function<void(std::size_t question, const whatif::Model& changed)>;

  /// `base` must outlive it. `limit`: reserved bytes are computed where the peak alone does not show that a strategy stays below
  /// it; replaying the allocator costs as much as simulating the step. Models with up to `keep_tasks` tasks together are
  /// kept between questions, at about 250 bytes a task.
  Evaluator(const analysis::Baseline& base, unsigned threads, std::optional<std::int64_t> limit,
            std::size_t keep_tasks = 500'000)
      : base_(base),
        predictor_(base.model, base.figures.measured),
        threads_(threads),
        limit_(limit),
        keep_tasks_(keep_tasks) {}

  [[nodiscard]] const analysis::Baseline& base() const { return base_; }

  /// What each strategy gives, without the graph.
  std::vector<whatif::Prediction> predict(const std::vector<Question>& questions, const Look& look = {});
  /// The figures a search compares. A strategy that was predicted before is not predicted again.
  std::vector<Evaluation> evaluate(const std::vector<Strategy>& strategies);

 private:
  /// The step behind one more change.
  struct Applied {
    whatif::SharedModel model;  ///< null: declined
    whatif::Prediction::Applied how;
    std::string declined;
  };
  struct Kept {
    std::shared_future<Applied> applied;
    std::list<std::string>::iterator place;  ///< in oldest_first_, once it is computed
  };

  whatif::Prediction answer(const Question& question, std::size_t number, const Look& look);
  Applied apply(const whatif::SharedModel& before, const whatif::Use& use, const std::string& target) const;
  Applied shared(const std::string& beginning, const std::function<Applied()>& compute);
  [[nodiscard]] std::optional<std::int64_t> reserved_bytes(const whatif::Model& changed) const;

  const analysis::Baseline& base_;
  whatif::Predictor predictor_;
  unsigned threads_;
  std::optional<std::int64_t> limit_;

  std::mutex mutex_;  ///< over everything below
  std::size_t keep_tasks_, kept_tasks_ = 0;
  std::map<std::string, Kept> kept_;  ///< by the texts of all changes up to there
  std::list<std::string> oldest_first_;
  std::map<std::string, Evaluation> known_;  ///< by key_of
};

/// optimize() with an evaluator that other searches of the same step share. `options.threads` is the evaluator's.
Result<Optimized> optimize(Evaluator& evaluator, const OptimizeOptions& options);
/// How many strategies `advise` predicts at most to find its combination.
std::size_t evaluations_of_advice(const whatif::Model& model);

/// A strategy as one list of changes: its what-ifs, and the workers behind them.
Result<std::vector<whatif::Use>> all_uses(const whatif::Model& model, const Strategy& strategy);

}  // namespace foretrace::search
