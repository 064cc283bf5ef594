#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

// One precision at a time. From none or another one to each that is worth trying; those that only change products (one use,
// nothing cast) are where one begins, not where one goes back to.
void propose(const StrategyView& v, std::vector<Strategy>& out) {
  const Strategy bare = without(v.strategy, whatif::Changes::kPrecision);
  const bool any = bare.whatifs.size() != v.strategy.whatifs.size();
  for (const whatif::WhatIf* w : whatif::whatifs_that_change(whatif::Changes::kPrecision)) {
    if (any && w->parts.memory == whatif::Part::kUnchanged) continue;
    for (const std::string& use : w->advise) {
      if (use_in(v.strategy, w->name) != use) out.push_back(with(bare, w->name, use));
    }
  }
}

}  // namespace

StrategyMove precision_move() {
  return {"change precision",
          "products and convolutions in bf16, fp16 or TF32",
          "convergence: compare losses over a few hundred steps; fp16 needs a gradient scaler",
          Attacks::kGpu,
          "",
          propose};
}

}  // namespace foretrace::search
