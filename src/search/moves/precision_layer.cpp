// Half precision gains in products and costs a cast, and its launch, around them. Where the CPU is the bottleneck the best mix
// has it only where the products are large: groups are taken by the time of their products, so how many is all there is to
// decide.

#include <fmt/format.h>

#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  if (v.groups.size() < 2) return;
  const whatif::WhatIf& half = whatif::first_whatif_that_changes(whatif::Changes::kPrecision);
  const std::string now = use_in(v.strategy, half.name);
  const std::size_t all = heaviest(v.groups, &ModuleGroup::products, v.groups.size()).size();
  const std::size_t count = now.empty() ? 0 : count_in(now, all);
  const bool fp16 = !now.empty() && now.find("bf16") == std::string::npos;
  for (const std::size_t n : count == 0 ? std::vector<std::size_t>{all / 2} : near_counts(count, all)) {
    if (n == 0) continue;
    const std::string use = fmt::format("{}:dtype={},layers={}", half.name, fp16 ? "fp16" : "bf16",
                                        fmt::join(heaviest(v.groups, &ModuleGroup::products, n), "|"));
    out.push_back(with(without(v.strategy, whatif::Changes::kPrecision), half.name, use));
  }
}

}  // namespace

StrategyMove precision_layer_move() {
  return {"change precision of a layer",
          "half precision for the modules with the largest products only",
          "convergence, as for the whole model; what leaves the modules is cast back",
          Attacks::kGpu,
          "",
          propose};
}

}  // namespace foretrace::search
