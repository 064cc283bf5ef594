#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  if (v.strategy.whatifs.size() < 2) return;
  for (const std::string& use : v.strategy.whatifs) out.push_back(with(v.strategy, name_of(use), {}));
}

}  // namespace

StrategyMove switch_off_move() {
  return {"switch off", "a change that a later one has made useless is removed", "nothing", Attacks::kGpu, "", propose};
}

}  // namespace foretrace::search
