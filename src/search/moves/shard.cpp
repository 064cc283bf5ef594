#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  if (!v.strategy.communication) return;
  for (const char* const scheme : {"ddp", "zero1", "zero2", "fsdp"}) {
    if (v.strategy.communication->scheme == scheme) continue;
    Strategy s = v.strategy;
    s.communication->scheme = scheme;
    s.communication->buckets.clear();
    out.push_back(std::move(s));
  }
}

}  // namespace

StrategyMove shard_move() {
  return {"shard",
          "optimizer states, gradients or parameters are divided among the workers (ZeRO)",
          "what reads whole parameters or states: checkpoints, clipping by norm, custom optimizers",
          Attacks::kCommunication,
          "fsdp",
          propose};
}

}  // namespace foretrace::search
