#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  if (!v.strategy.communication || v.gpus_per_node < 2 || v.strategy.communication->workers <= v.gpus_per_node) return;
  Strategy s = v.strategy;
  s.communication->scheme = v.strategy.communication->scheme == "blueconnect" ? "ddp" : "blueconnect";
  s.communication->buckets.clear();
  out.push_back(std::move(s));
}

}  // namespace

StrategyMove switch_algorithm_move() {
  return {"switch collective algorithm",
          "reductions are split along the levels of the network",
          "needs process groups along nodes and a communication hook",
          Attacks::kCommunication,
          "blueconnect",
          propose};
}

}  // namespace foretrace::search
