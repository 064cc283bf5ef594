// All changes that are worth trying by default and that no other move handles.

#include <algorithm>
#include <array>

#include "search/candidates.hpp"
#include "search/moves/strategy_move.hpp"
#include "whatif/model/fitting.hpp"

namespace foretrace::search {

namespace {

constexpr std::array kOthers = {whatif::Changes::kAccumulation, whatif::Changes::kPrecision,
                                whatif::Changes::kRecomputation, whatif::Changes::kLaunches};

// Precisions exclude each other; the other moves choose layers and counts of the catalogue's, which they know. What a program
// or plugin added is switched on like anything else.
bool has_own_move(const whatif::WhatIf& w) {
  if (std::find(kOthers.begin(), kOthers.end(), w.changes) == kOthers.end()) return false;
  const auto& known = whatif::catalogue();
  return w.changes == whatif::Changes::kPrecision ||
         std::any_of(known.begin(), known.end(), [&](const whatif::WhatIf& k) { return &k == &w; });
}

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  for (const whatif::Use& use : candidates()) {
    const whatif::WhatIf& w = *use.whatif;
    // Another batch is another job; what only saves memory is worth its time only where memory is short.
    if (w.stage == whatif::Stage::kBatch) continue;
    if (w.stage == whatif::Stage::kMemory && !v.over_limit()) continue;
    if (has_own_move(w) || !whatif::unfit_for(w, v.model).empty()) continue;
    if (use_in(v.strategy, w.name) != use.text) out.push_back(with(v.strategy, w.name, use.text));
  }
}

}  // namespace

StrategyMove switch_on_move() {
  return {"switch on",
          "a change of the catalogue: fused optimizer, channels last, compiled regions, …",
          "what the change assumes (`foretrace list whatifs`)",
          Attacks::kGpu,
          "",
          propose};
}

}  // namespace foretrace::search
