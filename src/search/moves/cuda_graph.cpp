#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

namespace {

void propose(const StrategyView& v, std::vector<Strategy>& out) {
  const std::string& name = whatif::first_whatif_that_changes(whatif::Changes::kLaunches).name;
  if (use_in(v.strategy, name).empty()) out.push_back(with(v.strategy, name, name));
}

}  // namespace

StrategyMove cuda_graph_move() {
  return {"CUDA-graph a region",
          "the step is captured once and launched as a whole",
          "shapes must not change, and nothing in the step may wait for the GPU",
          Attacks::kCpu,
          "",
          propose};
}

}  // namespace foretrace::search
