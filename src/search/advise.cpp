#include <algorithm>

#include "foretrace/search/optimize.hpp"
#include "search/candidates.hpp"
#include "search/evaluate.hpp"
#include "search/moves/strategy_move.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/model/compiled.hpp"
#include "whatif/model/fitting.hpp"

namespace foretrace::search {

using whatif::Detail;
using whatif::Prediction;
using whatif::Use;

namespace {

// Fewer strategies are predicted for large steps, so that the answer takes seconds. The bound is the number of tasks simulated for all
// strategies together, which gives the same answer on every machine; a minimum is tried in any case.
constexpr std::size_t kSimulatedTasks = 10'000'000;
constexpr std::size_t kMinStrategies = 60;
constexpr std::size_t kMaxStrategies = 700;

class Adviser {
 public:
  Adviser(const analysis::Baseline& base, const AdviseOptions& options)
      : model_(whatif::fullest_rank(base.model)),
        limit_(memory_limit(base.model, options.memory_limit)),
        evaluator_(base, options.threads, limit_),
        options_(options) {}

  Advised run() {
    Advised out;
    out.memory_limit = limit_;
    out.alone = alone();
    const Result<Optimized> best = optimize(evaluator_, search_options());
    if (best && !best->best.whatifs.empty()) {
      tried_ += best->evaluations;
      out.together = advice_of(best->best, best->prediction);
      out.parts = best->parts;
    }
    out.larger_batch = with_larger_batch(out, best ? best->best : Strategy{});
    out.tried = tried_;
    out.code_is_for = whatif::is_compiled(model_) ? "JAX" : "PyTorch";
    return out;
  }

 private:
  Advice advice_of(const Strategy& strategy, Prediction prediction) const {
    Advice a;
    a.uses = *uses_of(strategy);
    a.prediction = std::move(prediction);
    for (const Use& use : a.uses) {
      a.effort = std::max(a.effort, use.whatif->effort);
      a.code.push_back(whatif::code_of(use, model_));
    }
    a.gain = a.declined() ? 0 : a.prediction.speedup * a.prediction.samples;
    const auto& taken = a.prediction.reserved_bytes ? a.prediction.reserved_bytes : a.prediction.peak_bytes;
    a.fits = !limit_ || !taken || *taken <= *limit_;
    return a;
  }

  std::vector<Advice> alone() {
    std::vector<Strategy> singles;
    std::vector<Advice> out;
    std::vector<Use> all = candidates();
    for (Use& use : job_candidates(evaluator_.base().model)) all.push_back(std::move(use));
    for (const Use& use : all) {
      const std::string unfit = whatif::unfit_for(*use.whatif, model_);
      if (unfit.empty()) {
        singles.emplace_back().whatifs.push_back(use.text);
        continue;
      }
      Strategy single;
      single.whatifs.push_back(use.text);
      Prediction none;
      none.whatif = use.text;
      none.declined = use.whatif->name + ": " + unfit;
      out.push_back(advice_of(single, std::move(none)));
    }
    std::vector<Evaluator::Question> questions;
    for (const Strategy& single : singles) questions.push_back({single, Detail::kFull});
    std::vector<Prediction> predictions = evaluator_.predict(questions);
    tried_ += singles.size();
    for (std::size_t i = 0; i < singles.size(); ++i) out.push_back(advice_of(singles[i], std::move(predictions[i])));
    std::stable_sort(out.begin(), out.end(), [](const Advice& a, const Advice& b) {
      if (a.declined() != b.declined()) return b.declined();
      return a.gain > b.gain;
    });
    return out;
  }

  [[nodiscard]] OptimizeOptions search_options() const {
    OptimizeOptions o;
    // Without memory events it is unknown what fits.
    if (model_.memory) o.memory_limit = options_.memory_limit;
    o.evaluations = evaluations_of_advice(model_);
    o.least_gain = options_.least_gain;
    o.threads = options_.threads;
    if (options_.progress) {
      const Progress& report = options_.progress;
      o.progress = [report, before = tried_](const SearchProgress& p) {
        report("trying changes", before + p.evaluations, 0, "predictions");
      };
    }
    return o;
  }

  // The combination at each larger batch; where that does not fit, with what saves memory.
  std::optional<Advice> with_larger_batch(const Advised& found, const Strategy& best) {
    if (!model_.memory) return std::nullopt;
    OptimizeOptions o = search_options();
    for (const Advice& a : found.alone) {
      const whatif::WhatIf& w = *a.uses.front().whatif;
      if (a.declined() || w.changes != whatif::Changes::kBatch) continue;
      o.start.push_back(with(best, w.name, a.uses.front().text));
    }
    if (o.start.empty()) return std::nullopt;
    for (const std::string& use : best.whatifs) o.only.emplace_back(name_of(use));
    for (const whatif::WhatIf* w : whatif::whatifs_that_change(whatif::Changes::kBatch)) o.only.push_back(w->name);
    o.evaluations /= 2;  // it begins with what was found
    for (const whatif::WhatIf* w : whatif::all_whatifs()) {
      if (w->stage == whatif::Stage::kMemory || w->changes == whatif::Changes::kAccumulation) o.only.push_back(w->name);
    }
    o.explain = false;
    const Result<Optimized> larger = optimize(evaluator_, o);
    if (!larger || without(larger->best, whatif::Changes::kBatch) == larger->best) return std::nullopt;
    tried_ += larger->evaluations;
    Advice a = advice_of(larger->best, larger->prediction);
    const double now = found.together ? found.together->gain : 1.0;
    if (a.gain < std::max(now, 1.0) * (1 + options_.least_gain)) return std::nullopt;
    return a;
  }

  const whatif::Model& model_;
  std::optional<std::int64_t> limit_;
  Evaluator evaluator_;  ///< of everything tried here: the searches ask for much of it again
  const AdviseOptions& options_;
  std::size_t tried_ = 0;
};

}  // namespace

std::size_t evaluations_of_advice(const whatif::Model& model) {
  return std::clamp(kSimulatedTasks / std::max<std::size_t>(1, model.graph.size()), kMinStrategies, kMaxStrategies);
}

Advised advise(const analysis::Baseline& base, const AdviseOptions& options) { return Adviser(base, options).run(); }

}  // namespace foretrace::search
