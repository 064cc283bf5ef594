#include <algorithm>
#include <map>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/rewrite/sibling_layers.hpp"

namespace foretrace::whatif {

namespace {

using work::Gemm;
using work::Work;

// The products of each layer's backward pass.
std::map<std::uint32_t, std::vector<const Row*>> backward_products(const Model& m, const std::vector<Row>& rows) {
  std::map<std::uint32_t, std::vector<const Row*>> products;
  for (const Row& r : rows) {
    const graph::LayerId layer = m.graph.layer[r.tasks.front()];
    if (r.phase == Phase::kBackward && layer_product(m.works[r.work]) != nullptr && layer.valid()) {
      products[layer.value].push_back(&r);
    }
  }
  return products;
}

Status apply_substitute(Model& m, Draft& draft, const Parameters&) {
  const std::vector<Row> rows = rows_of(m, draft);
  const std::vector<Siblings> all = find_siblings(m, rows);
  if (all.empty()) return fail(ErrorCode::kDeclined, "no layers side by side multiply the same input");
  std::map<std::uint32_t, std::vector<const Row*>> backward = backward_products(m, rows);
  Selection gone;
  // All of them are products of layers.
  const auto sizes = [&](const Row* r) -> const Gemm& { return *layer_product(m.works[r->work]); };
  for (const Siblings& s : all) {
    Work joined = m.works[s.forward.front()->work];
    for (std::size_t i = 1; i < s.forward.size(); ++i) std::get<Gemm>(joined.kind).n += sizes(s.forward[i]).n;
    join_rows(m, draft, s.forward, joined, gone);
    for (const bool weights : {false, true}) {
      std::vector<const Row*> same;
      for (const std::uint32_t layer : s.layers) {
        for (const Row* r : backward[layer]) {
          if (sizes(r).weight_grad == weights) same.push_back(r);
        }
      }
      if (same.size() != s.layers.size()) continue;
      // The gradient of the input sums over all outputs at once; that of the weights has as many more rows.
      Work wide = m.works[same.front()->work];
      auto& gemm = std::get<Gemm>(wide.kind);
      for (std::size_t i = 1; i < same.size(); ++i) {
        (weights ? gemm.m : gemm.k) += weights ? sizes(same[i]).m : sizes(same[i]).k;
      }
      join_rows(m, draft, same, wide, gone);
    }
  }
  std::sort(gone.begin(), gone.end());
  draft.remove(gone, Draft::kWithLaunch);
  return {};
}

WhatIf substitute_whatif() {
  return {
      .name = "substitute",
      .about = "layers that read the same input become one wider layer (query, key and value)",
      .parameters = {},
      .assumes = "their weights lie side by side; the parts of the result are views of it",
      .source = "Jia et al. 2019 (MetaFlow); TASO (Daydream's table)",
      .not_modelled = "other substitutions: convolutions of parallel branches, sums of input gradients that fall away",
      .needs = {Need::kShapes, Need::kLayers},
      .changes = Changes::kKernels,
      .parts = {.memory = Part::kNotModelled},
      .code = "self.qkv = nn.Linear(d, 3 * d)  # then q, k, v = self.qkv(x).chunk(3, -1)",
      .effort = Effort::kWork,
      .stage = Stage::kKernels,
      .advise = {"substitute"},
      .validated = false,
      .apply = apply_substitute};
}

const Registered kRegistered(substitute_whatif);

}  // namespace

}  // namespace foretrace::whatif
