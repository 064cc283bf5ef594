#include "whatif/rewrite/sibling_layers.hpp"

#include <algorithm>

namespace foretrace::whatif {

using work::Work;

namespace {

std::string_view parent_of(std::string_view layer) { return layer.substr(0, std::min(layer.rfind('.'), layer.size())); }

}  // namespace

const work::Gemm* layer_product(const Work& w) {
  const auto* g = std::get_if<work::Gemm>(&w.kind);
  return g != nullptr && g->batch == 1 && g->m > 0 && g->n > 0 && g->k > 0 ? g : nullptr;
}

std::vector<Siblings> find_siblings(const Model& m, const std::vector<Row>& rows) {
  std::vector<Siblings> found;
  const Graph& g = m.graph;
  const auto layer_of = [&](const Row& r) { return g.layer[r.tasks.front()]; };
  const auto name_of = [&](const Row& r) -> std::string_view { return g.strings[g.layers[layer_of(r).index()].name]; };
  const Row* last = nullptr;
  bool open = false;
  for (const Row& r : rows) {
    if (r.phase != Phase::kForward) continue;
    const Work& w = m.works[r.work];
    const work::Gemm* own = layer_product(w);
    const bool product = own != nullptr && layer_of(r).valid() && !g.layers[layer_of(r).index()].synthetic;
    bool joins = false;
    if (product && last != nullptr) {
      const Work& before = m.works[last->work];
      const work::Gemm& neighbour = *layer_product(before);
      joins = neighbour.m == own->m && neighbour.k == own->k && before.dtype == w.dtype &&
              layer_of(*last) != layer_of(r) && parent_of(name_of(*last)) == parent_of(name_of(r));
      const std::string_view leaf = name_of(r).substr(std::min(name_of(r).rfind('.') + 1, name_of(r).size()));
      if (!leaf.empty() && leaf.find_first_not_of("0123456789") == std::string_view::npos) joins = false;
    }
    if (joins && !open) found.push_back({{last}, {layer_of(*last).value}});
    if (joins) {
      found.back().forward.push_back(&r);
      found.back().layers.push_back(layer_of(r).value);
    }
    open = joins;
    last = product ? &r : nullptr;
  }
  return found;
}

}  // namespace foretrace::whatif
