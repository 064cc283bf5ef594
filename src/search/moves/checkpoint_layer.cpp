// Blocks are taken from the front: their activations live longest, and equal blocks cost the same to compute again (the
// symmetry of repeated blocks), so how many is all there is to decide.

#include <fmt/format.h>

#include <algorithm>

#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  if (v.blocks.empty()) return;
  const std::string& name = whatif::first_whatif_that_changes(whatif::Changes::kRecomputation).name;
  const std::string now = use_in(v.strategy, name);
  const std::size_t all = v.blocks.size();
  const std::size_t count = now.empty() ? 0 : count_in(now, all);
  const auto first = [&](std::size_t n) {
    if (n == 0) return with(v.strategy, name, {});
    const std::vector<std::string> names(v.blocks.begin(), v.blocks.begin() + static_cast<std::ptrdiff_t>(n));
    return with(v.strategy, name, fmt::format("{}:layers={}", name, fmt::join(names, "|")));
  };
  if (v.over_limit()) {
    // One more, and on in doubling steps up to all of them.
    for (std::size_t more = 1; count < all; more *= 2) {
      out.push_back(first(std::min(all, count + more)));
      if (count + more >= all) break;
    }
  }
  if (count > 0) {
    out.push_back(first(count - 1));
    if (count > 3) out.push_back(first(count - count / 2));
  }
}

}  // namespace

StrategyMove checkpoint_layer_move() {
  return {"checkpoint a layer",
          "a block keeps its input only and computes the rest again in backward",
          "layers with state of their own (batch norm counts twice); random numbers must be restored",
          Attacks::kMemory,
          "",
          propose};
}

}  // namespace foretrace::search
