#include "whatif/dataflow/layer_regions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/suggest.hpp"
#include "whatif/dataflow/blocks.hpp"

namespace foretrace::whatif {

namespace {

/// Patterns, with plain names looked up and only the others tried one after the other: a step may have thousands of layers, and
/// the search names many of them at once.
class Patterns {
 public:
  explicit Patterns(const std::vector<std::string>& all) : all_(all), used_(all.size(), 0) {
    for (std::size_t p = 0; p < all.size(); ++p) {
      if (all[p].find_first_of("*?") == std::string::npos) {
        names_[all[p]].push_back(p);
      } else {
        globs_.push_back(p);
      }
    }
  }

  /// The outermost module around a layer that a pattern matches; empty when none does.
  std::string region_of(std::string_view layer) {
    std::string found;
    for (std::size_t dot = layer.find('.');; dot = layer.find('.', dot + 1)) {
      const std::string_view module = layer.substr(0, dot);
      if (matches(module) && found.empty()) found = module;
      if (dot == std::string_view::npos) return found;
    }
  }

  /// The first one that matched nothing; null when all did.
  [[nodiscard]] const std::string* unused() const {
    const auto at = std::find(used_.begin(), used_.end(), 0);
    return at == used_.end() ? nullptr : &all_[static_cast<std::size_t>(at - used_.begin())];
  }

 private:
  bool matches(std::string_view module) {
    bool any = false;
    if (const auto it = names_.find(module); it != names_.end()) {
      for (const std::size_t p : it->second) used_[p] = 1;
      any = true;
    }
    for (const std::size_t p : globs_) {
      if (!glob_match(all_[p], module)) continue;
      used_[p] = 1;
      any = true;
    }
    return any;
  }

  const std::vector<std::string>& all_;
  std::vector<char> used_;
  std::map<std::string_view, std::vector<std::size_t>> names_;
  std::vector<std::size_t> globs_;
};

// Which layer each unit runs in: that of its GPU work; units without any are between layers.
std::vector<std::uint32_t> layers_of_units(const Graph& g, const Dataflow& flow) {
  std::vector<std::uint32_t> layer(flow.units.size(), kNone);
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || !g.op[t].valid() || !g.layer[t].valid()) continue;
    if (g.layers[g.layer[t].index()].synthetic) continue;
    const std::uint32_t unit = flow.unit_of(g.op[t].value);
    if (unit != kNone) layer[unit] = g.layer[t].value;
  }
  return layer;
}

}  // namespace

tl::unexpected<Error> no_such_layer(std::string_view pattern, const std::vector<std::string>& names) {
  // Enough of them to show how they are called: the first, the middle and the last.
  constexpr std::size_t kShown = 6;
  std::vector<std::string> some;
  for (std::size_t i = 0; i < names.size() && i < kShown; ++i) {
    some.push_back(names.size() <= kShown ? names[i] : names[i * (names.size() - 1) / (kShown - 1)]);
  }
  const std::optional<std::string> near = closest_match(pattern, names);
  std::string message = fmt::format("no layer of this step is called '{}'", pattern);
  if (near) message += fmt::format(" (did you mean '{}'?)", *near);
  message += fmt::format("; it has {}{}", fmt::join(some, ", "),
                         names.size() > kShown ? fmt::format(" and others, {} in all", names.size()) : "");
  return fail(ErrorCode::kDeclined, std::move(message));
}

std::uint32_t LayerRegions::of(const Graph& g, const Dataflow& flow, std::uint32_t event, std::uint32_t task) const {
  std::uint32_t unit = event == kNone ? kNone : flow.unit_of(event);
  if (unit == kNone && event != kNone) unit = flow.backward_of(event).unit;
  if (unit != kNone) return of_unit[unit];
  return g.layer[task].valid() ? of_layer[g.layer[task].index()] : kNone;
}

Result<LayerRegions> choose_regions(const Model& m, const Dataflow& flow, const std::vector<std::string>& patterns) {
  const Graph& g = m.graph;
  LayerRegions out;
  out.of_layer.assign(g.layers.size(), kNone);
  Patterns wanted(patterns);
  std::map<std::string, std::uint32_t> index;
  std::set<std::string> known;
  std::vector<std::string> modules;  // blocks where there are some, else layers: what people name
  for (std::size_t l = 0; l < g.layers.size(); ++l) {
    if (g.layers[l].synthetic) continue;
    const std::string name(g.strings[g.layers[l].name]);
    const std::string block = block_of(name);
    if (const std::string& shown = block.empty() ? name : block; known.insert(shown).second) modules.push_back(shown);
    const std::string region = wanted.region_of(name);
    if (region.empty()) continue;
    const auto [it, added] = index.try_emplace(region, static_cast<std::uint32_t>(out.names.size()));
    if (added) out.names.push_back(region);
    out.of_layer[l] = it->second;
  }
  if (modules.empty()) {
    return fail(ErrorCode::kDeclined,
                "the trace names no layers to choose from (record with foretrace.recorder, or with_stack=True)");
  }
  if (const std::string* pattern = wanted.unused()) return no_such_layer(*pattern, modules);
  const std::vector<std::uint32_t> layer = layers_of_units(g, flow);
  out.of_unit.assign(flow.units.size(), kNone);
  std::size_t last_named = 0;  // what runs behind all layers is the loss
  for (std::size_t u = 0; u < layer.size(); ++u) {
    if (layer[u] != kNone) last_named = u;
  }
  std::uint32_t around = kNone;
  for (std::size_t u = 0; u < layer.size(); ++u) {
    if (layer[u] != kNone) {
      out.of_unit[u] = out.of_layer[layer[u]];
      // A layer that was chosen itself holds nothing but its own work.
      const bool whole = out.of_unit[u] != kNone && out.names[out.of_unit[u]] == g.strings[g.layers[layer[u]].name];
      around = whole ? kNone : out.of_unit[u];
    } else if (u < last_named) {
      out.of_unit[u] = around;
    }
  }
  return out;
}

}  // namespace foretrace::whatif
