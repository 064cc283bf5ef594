#include "search/module_groups.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include "whatif/dataflow/blocks.hpp"

namespace foretrace::search {

std::vector<ModuleGroup> module_groups(const whatif::Model& m) {
  const graph::Graph& g = m.graph;
  std::vector<ModuleGroup> groups;
  std::map<std::string, std::size_t> index;
  std::vector<std::size_t> group_of(g.layers.size(), static_cast<std::size_t>(-1));
  for (std::size_t l = 0; l < g.layers.size(); ++l) {
    if (g.layers[l].synthetic) continue;
    const std::string layer(g.strings[g.layers[l].name]);
    const std::string block = whatif::block_of(layer);
    const std::string& name = block.empty() ? layer : block;
    const auto [it, inserted] = index.try_emplace(name, groups.size());
    if (inserted) groups.push_back({name});
    group_of[l] = it->second;
  }
  for (std::size_t t = 0; t < g.size(); ++t) {
    const work::Work* described = m.works.of(t);
    if (!graph::is_gpu(g.kind[t]) || described == nullptr || !g.layer[t].valid()) continue;
    const std::size_t group = group_of[g.layer[t].index()];
    if (group == static_cast<std::size_t>(-1)) continue;
    const work::Work& w = *described;
    using work::Family;
    if (is_product(w)) {
      groups[group].products += g.cost[t];
    } else if (w.family == Family::kElementwise || w.family == Family::kCopy || w.family == Family::kReduction ||
               w.family == Family::kLayerNorm || w.family == Family::kBatchNorm || w.family == Family::kSoftmax) {
      groups[group].others += g.cost[t];
    }
  }
  return groups;
}

std::vector<std::string> heaviest(const std::vector<ModuleGroup>& groups, Ns ModuleGroup::* weight, std::size_t count) {
  std::vector<std::size_t> order(groups.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return groups[a].*weight > groups[b].*weight; });
  order.resize(std::min(count, order.size()));
  std::erase_if(order, [&](std::size_t i) { return groups[i].*weight <= 0; });
  std::sort(order.begin(), order.end());
  std::vector<std::string> names;
  for (const std::size_t i : order) names.push_back(groups[i].name);
  return names;
}

std::vector<std::size_t> near_counts(std::size_t now, std::size_t all) {
  std::vector<std::size_t> counts;
  for (const std::size_t n : {now / 2, now - std::min<std::size_t>(now, 1), now + 1, 2 * now}) {
    if (n > 0 && n < all && n != now && std::find(counts.begin(), counts.end(), n) == counts.end()) counts.push_back(n);
  }
  return counts;
}

}  // namespace foretrace::search
