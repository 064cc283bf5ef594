#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  for (const char* const use : {"amp:dtype=bf16", "amp:dtype=fp16"}) {
    if (use_in(v.strategy, "amp") != use) out.push_back(with(with(v.strategy, "tf32", {}), "amp", use));
  }
  if (use_in(v.strategy, "tf32").empty() && use_in(v.strategy, "amp").empty()) {
    out.push_back(with(v.strategy, "tf32", "tf32"));
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
