#include "search/evaluate.hpp"

#include "foretrace/memory/memory.hpp"
#include "search/communication.hpp"

namespace foretrace::search {

std::optional<std::int64_t> memory_limit(const whatif::Model& model, std::optional<std::int64_t> asked) {
  if (asked || model.device.memory_gb <= 0) return asked;
  return static_cast<std::int64_t>(model.device.memory_gb * 1e9) - hardware::kDriverBytes;
}

Result<std::vector<whatif::Use>> all_uses(const whatif::Model& model, const Strategy& strategy) {
  FORETRACE_TRY(std::vector<whatif::Use> uses, uses_of(strategy));
  if (strategy.communication && strategy.communication->workers > 1) {
    FORETRACE_TRY(whatif::Use workers, use_of(*strategy.communication, model.device));
    uses.push_back(std::move(workers));
  }
  return uses;
}

whatif::Prediction predict_strategy(const analysis::Baseline& base, const Strategy& strategy, whatif::Detail detail) {
  const Result<std::vector<whatif::Use>> uses = all_uses(base.model, strategy);
  whatif::Prediction p;
  if (uses) {
    p = analysis::predict(base, *uses, detail);
  } else {
    p.declined = uses.error().message;
  }
  p.whatif = describe(strategy);
  return p;
}

std::vector<Evaluation> evaluate_all(const analysis::Baseline& base, const std::vector<Strategy>& strategies,
                                     unsigned threads) {
  return Evaluator(base, threads, 0).evaluate(strategies);
}

std::optional<std::int64_t> Evaluator::reserved_where_it_decides(const whatif::Model& changed) const {
  if (!limit_ || !changed.memory) return std::nullopt;
  const std::int64_t peak = memory::peak(*changed.memory).bytes;
  if (memory::surely_fits(peak, static_cast<double>(*limit_))) return std::nullopt;
  return memory::reserved(*changed.memory, peak);
}

std::vector<whatif::Prediction> Evaluator::predict(const std::vector<StrategyTree::Question>& questions,
                                                   const StrategyTree::Look& look) {
  std::vector<std::optional<std::int64_t>> reserved(questions.size());
  std::vector<whatif::Prediction> predictions =
      tree_.predict(questions, threads_, [&](std::size_t q, const whatif::Model& changed) {
        if (questions[q].detail != whatif::Detail::kFull) reserved[q] = reserved_where_it_decides(changed);
        if (look) look(q, changed);
      });
  for (std::size_t q = 0; q < questions.size(); ++q) {
    const whatif::Prediction& p = predictions[q];
    known_.try_emplace(key_of(questions[q].strategy), Evaluation{p.declined, p.step, p.peak_bytes, p.samples,
                                                                 p.reserved_bytes ? p.reserved_bytes : reserved[q]});
  }
  return predictions;
}

std::vector<Evaluation> Evaluator::evaluate(const std::vector<Strategy>& strategies) {
  std::vector<StrategyTree::Question> unknown;
  for (const Strategy& s : strategies) {
    if (!known_.contains(key_of(s))) unknown.push_back({s, whatif::Detail::kStepOnly});
  }
  predict(unknown);
  std::vector<Evaluation> out;
  for (const Strategy& s : strategies) out.push_back(known_.at(key_of(s)));
  return out;
}

}  // namespace foretrace::search
