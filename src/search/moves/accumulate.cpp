#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  const std::string& name = whatif::first_whatif_that_changes(whatif::Changes::kAccumulation).name;
  const std::string now = use_in(v.strategy, name);
  int n = 1;
  if (const std::size_t at = now.find("n="); at != std::string::npos) {
    std::from_chars(now.data() + at + 2, now.data() + now.size(), n);
  }
  // More parts only to save memory; fewer where it is no longer needed.
  // Each part is a pass of its own to simulate, so the next two sizes are tried, and more from there.
  constexpr int kMaxParts = 32;
  if (v.over_limit()) {
    for (int parts = 2 * n; parts <= std::min(kMaxParts, 4 * n); parts *= 2) {
      out.push_back(with(v.strategy, name, fmt::format("{}:n={}", name, parts)));
    }
  }
  if (n > 1) out.push_back(with(v.strategy, name, n > 2 ? fmt::format("{}:n={}", name, n / 2) : ""));
}

}  // namespace

StrategyMove accumulate_move() {
  return {"accumulate",
          "the batch in parts whose gradients are added up",
          "batch norm sees smaller batches; the last step of an epoch may have fewer parts",
          Attacks::kMemory,
          "",
          propose};
}

}  // namespace foretrace::search
