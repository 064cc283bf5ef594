#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

// Half precision is the one compression that keeps every gradient; sparse and low-rank ones change training and are left to
// whoever asks for them (`foretrace scale --compress`).
void propose(const StrategyView& v, std::vector<Strategy>& out) {
  if (!v.strategy.communication) return;
  Strategy s = v.strategy;
  s.communication->compression = v.strategy.communication->compression == "none" ? "fp16" : "none";
  out.push_back(std::move(s));
}

}  // namespace

StrategyMove compress_move() {
  return {"compress",
          "gradients travel in half precision",
          "convergence: small gradients may vanish in fp16; compare losses over a few hundred steps",
          Attacks::kCommunication,
          "compress-gradients",
          propose};
}

}  // namespace foretrace::search
