#include <algorithm>
#include <map>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/catalogue/rows.hpp"

namespace foretrace::whatif {

namespace {

using hardware::Family;
using hardware::Work;

/// Layers that read the same tensor: "attention.query", "attention.key" and "attention.value".
struct Siblings {
  std::vector<const Row*> forward;
  std::vector<std::uint32_t> layers;
};

std::string_view parent_of(std::string_view layer) { return layer.substr(0, std::min(layer.rfind('.'), layer.size())); }

bool joinable(const Work& w) { return w.family == Family::kGemm && w.batch == 1 && w.m > 0 && w.n > 0 && w.k > 0; }

// Products that follow each other directly, of layers side by side in one module, with inputs of one shape. A layer that reads
// what the one before it wrote has an activation between them, or is a numbered member of a Sequential.
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
    const bool product = joinable(w) && layer_of(r).valid() && !g.layers[layer_of(r).index()].synthetic;
    bool joins = false;
    if (product && last != nullptr) {
      const Work& before = m.works[last->work];
      joins = before.m == w.m && before.k == w.k && before.dtype == w.dtype && layer_of(*last) != layer_of(r) &&
              parent_of(name_of(*last)) == parent_of(name_of(r));
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

// Several rows become one that does `becomes`: its time is theirs, scaled as the models say of the joined product.
void join(Model& m, Draft& draft, const std::vector<const Row*>& rows, Work becomes, Selection& gone) {
  double measured = 0;
  double apart = 0;
  for (const Row* r : rows) {
    measured += static_cast<double>(r->time);
    apart += predict(m.works[r->work], m.device).ns;
  }
  refresh(becomes);
  const hardware::Cost together = predict(becomes, m.device);
  if (!together.known || apart <= 0) return;
  for (std::size_t i = 1; i < rows.size(); ++i) gone.insert(gone.end(), rows[i]->tasks.begin(), rows[i]->tasks.end());
  set_row(m, draft, *rows.front(), measured * std::min(1.0, together.ns / apart), becomes, graph::Origin::kModelled);
}

Status apply_substitute(Model& m, Draft& draft, const Parameters&) {
  const std::vector<Row> rows = rows_of(m, draft);
  const std::vector<Siblings> all = find_siblings(m, rows);
  if (all.empty()) return fail(ErrorCode::kDeclined, "no layers side by side multiply the same input");
  std::map<std::uint32_t, std::vector<const Row*>> backward;  // products of a layer's backward pass
  for (const Row& r : rows) {
    const graph::LayerId layer = m.graph.layer[r.tasks.front()];
    if (r.phase == Phase::kBackward && joinable(m.works[r.work]) && layer.valid()) backward[layer.value].push_back(&r);
  }
  Selection gone;
  for (const Siblings& s : all) {
    Work joined = m.works[s.forward.front()->work];
    for (std::size_t i = 1; i < s.forward.size(); ++i) joined.n += m.works[s.forward[i]->work].n;
    join(m, draft, s.forward, joined, gone);
    for (const bool weights : {false, true}) {
      std::vector<const Row*> same;
      for (const std::uint32_t layer : s.layers) {
        for (const Row* r : backward[layer]) {
          if (m.works[r->work].weight_grad == weights) same.push_back(r);
        }
      }
      if (same.size() != s.layers.size()) continue;
      // The gradient of the input sums over all outputs at once; that of the weights has as many more rows.
      Work wide = m.works[same.front()->work];
      std::int64_t& grows = weights ? wide.m : wide.k;
      for (std::size_t i = 1; i < same.size(); ++i) {
        grows += weights ? m.works[same[i]->work].m : m.works[same[i]->work].k;
      }
      join(m, draft, same, wide, gone);
    }
  }
  std::sort(gone.begin(), gone.end());
  draft.remove(gone, Draft::kWithLaunch);
  return {};
}

}  // namespace

WhatIf substitute_whatif() {
  return {
      .name = "substitute",
      .about = "layers that read the same input become one wider layer (query, key and value)",
      .parameters = {},
      .assumes = "their weights lie side by side; the parts of the result are views of it",
      .source = "Jia et al. 2019 (MetaFlow); TASO (Daydream's table)",
      .not_modelled = "other substitutions: convolutions of parallel branches, sums of input gradients that fall away",
      .needs = "shapes and layer ranges",
      .code = "self.qkv = nn.Linear(d, 3 * d)  # then q, k, v = self.qkv(x).chunk(3, -1)",
      .effort = Effort::kWork,
      .stage = Stage::kKernels,
      .advise = {"substitute"},
      .validated = false,
      .apply = apply_substitute};
}

}  // namespace foretrace::whatif
