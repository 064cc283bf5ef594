// Neighbouring element-wise operations of a module become one kernel that reads its inputs once and writes its results once:
// a module at a time, those first that spend most in such operations.

#include <fmt/format.h>

#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  if (v.groups.size() < 2) return;
  const std::string& name = whatif::first_whatif_that_changes(whatif::Changes::kCompilation).name;
  const std::string now = use_in(v.strategy, name);
  if (now.find("mode=") != std::string::npos) return;
  const std::size_t all = heaviest(v.groups, &ModuleGroup::others, v.groups.size()).size();
  const std::size_t count = now.empty() ? 0 : count_in(now, all);
  for (const std::size_t n : count == 0 ? std::vector<std::size_t>{1, all / 2} : near_counts(count, all)) {
    if (n == 0) continue;
    out.push_back(with(v.strategy, name,
                       fmt::format("{}:layers={}", name, fmt::join(heaviest(v.groups, &ModuleGroup::others, n), "|"))));
  }
}

}  // namespace

StrategyMove compile_region_move() {
  return {"compile a region",
          "element-wise operations of a module become one kernel each (torch.compile of that module)",
          "modules that do not compile; the last bits of results",
          Attacks::kGpu,
          "",
          propose};
}

}  // namespace foretrace::search
