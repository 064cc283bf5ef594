#include <algorithm>

#include "search/moves/plan_move.hpp"
#include "search/moves/strategy_move.hpp"

namespace foretrace::search {

const std::vector<StrategyMove>& strategy_moves() {
  static const std::vector<StrategyMove> kAll = {
      bucket_size_move(),    compress_move(),         shard_move(),      switch_algorithm_move(),
      job_buckets_move(),    job_compress_move(),     pipeline_move(),   stage_balance_move(),
      precision_move(),      switch_on_move(),        cuda_graph_move(), precision_layer_move(),
      compile_region_move(), checkpoint_layer_move(), accumulate_move(), switch_off_move()};
  return kAll;
}

std::vector<MoveInfo> moves() {
  std::vector<MoveInfo> all;
  for (const StrategyMove& m : strategy_moves()) all.push_back({m.name, m.about, m.may_break});
  for (const PlanMove& m : plan_moves()) all.push_back({m.name, m.about, m.may_break});
  std::sort(all.begin(), all.end(), [](const MoveInfo& a, const MoveInfo& b) { return a.name < b.name; });
  return all;
}

Strategy without(const Strategy& strategy, whatif::Changes changes) {
  Strategy out = strategy;
  for (const whatif::WhatIf* w : whatif::whatifs_that_change(changes)) {
    std::erase_if(out.whatifs, [&](const std::string& t) { return name_of(t) == w->name; });
  }
  return out;
}

std::string_view name_of(std::string_view use) { return use.substr(0, use.find(':')); }

std::size_t count_in(std::string_view use, std::size_t all) {
  if (use.find("layers=") == std::string_view::npos) return all;
  return 1 + static_cast<std::size_t>(std::count(use.begin(), use.end(), '|'));
}

std::string use_in(const Strategy& strategy, std::string_view whatif) {
  for (const std::string& text : strategy.whatifs) {
    if (name_of(text) == whatif) return text;
  }
  return {};
}

Strategy with(const Strategy& strategy, std::string_view whatif, const std::string& text) {
  Strategy out = strategy;
  std::erase_if(out.whatifs, [&](const std::string& t) { return name_of(t) == whatif; });
  if (!text.empty()) out.whatifs.push_back(text);
  const auto place = [](const std::string& t) {
    const Result<const whatif::WhatIf*> w = whatif::find_whatif(name_of(t));
    return w ? static_cast<int>((*w)->stage) : 0;
  };
  std::stable_sort(out.whatifs.begin(), out.whatifs.end(), [&](const std::string& a, const std::string& b) {
    return place(a) != place(b) ? place(a) < place(b) : name_of(a) < name_of(b);
  });
  return out;
}

}  // namespace foretrace::search
