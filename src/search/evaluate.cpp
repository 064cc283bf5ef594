#include "search/evaluate.hpp"

#include <algorithm>

#include "base/workers.hpp"
#include "search/communication.hpp"

namespace foretrace::search {

std::optional<std::int64_t> memory_limit(const whatif::Model& model, std::optional<std::int64_t> asked) {
  if (asked || model.device.memory_gb <= 0) return asked;
  return static_cast<std::int64_t>(model.device.memory_gb * 1e9) - hardware::kDriverBytes;
}

namespace {

// All of a strategy is uses: its what-ifs, and the workers behind them.
Result<std::vector<whatif::Use>> all_uses(const whatif::Model& model, const Strategy& strategy) {
  FORETRACE_TRY(std::vector<whatif::Use> uses, uses_of(strategy));
  if (strategy.communication && strategy.communication->workers > 1) {
    FORETRACE_TRY(whatif::Use workers, use_of(*strategy.communication, model.device));
    uses.push_back(std::move(workers));
  }
  return uses;
}

}  // namespace

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

std::vector<whatif::Prediction> predict_all(const analysis::Baseline& base, const std::vector<Strategy>& strategies,
                                            whatif::Detail detail, unsigned threads) {
  std::vector<whatif::Prediction> out(strategies.size());
  for_each_index(strategies.size(), threads, [&](std::size_t i) {
    out[i] = predict_strategy(base, strategies[i], detail);
    // Graphs of many predictions would fill the memory; the one that is wanted is made again.
    out[i].graph = {};
  });
  return out;
}

std::vector<Evaluation> evaluate_all(const analysis::Baseline& base, const std::vector<Strategy>& strategies,
                                     unsigned threads) {
  std::vector<Evaluation> out;
  for (whatif::Prediction& p : predict_all(base, strategies, whatif::Detail::kStepOnly, threads)) {
    out.push_back({std::move(p.declined), p.step, p.peak_bytes, p.samples});
  }
  return out;
}

}  // namespace foretrace::search
