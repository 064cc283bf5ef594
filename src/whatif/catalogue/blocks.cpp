#include "whatif/catalogue/blocks.hpp"

#include <algorithm>
#include <map>
#include <set>

namespace foretrace::whatif {

using graph::Graph;
using graph::Phase;

namespace {

// The end of the last of the numbers that follow each other behind `dot`, as long as something follows them.
std::size_t innermost_entry(std::string_view name, std::size_t dot) {
  for (;;) {
    const std::size_t next = name.find('.', dot + 1);
    if (next == std::string_view::npos) return dot;
    const std::string_view part = name.substr(dot + 1, next - dot - 1);
    if (part.empty() || part.find_first_not_of("0123456789") != std::string_view::npos) return dot;
    dot = next;
  }
}

}  // namespace

std::string block_of(std::string_view name) {
  std::size_t from = 0;
  std::size_t numbered = 0;  // end of the innermost part that only ends with a number: "encoder_layer_3"
  while (from < name.size()) {
    std::size_t dot = name.find('.', from);
    if (dot == std::string_view::npos) dot = name.size();
    const std::string_view part = name.substr(from, dot - from);
    const std::size_t digits = part.find_last_not_of("0123456789") + 1;  // 0 when there is nothing else
    // "layer1.0.conv1": the number must be followed by something, else it is a leaf of a Sequential.
    if (digits < part.size() && dot < name.size()) {
      // "features.2.0.block.1": an entry of a list in a list is the block.
      if (digits == 0) return std::string(name.substr(0, innermost_entry(name, dot)));
      numbered = dot;
    }
    from = dot + 1;
  }
  return std::string(name.substr(0, numbered));
}

namespace {

// Whether `module` is the block itself, or a list of blocks it stands in: what runs there is still the block's.
bool holds(std::string_view module, std::string_view block) {
  return block.starts_with(module) && (block.size() == module.size() || block[module.size()] == '.');
}

}  // namespace

std::vector<BlockOfLayers> repeated_blocks(const Graph& g) {
  std::vector<std::string> block_of_layer(g.layers.size());
  for (std::size_t l = 0; l < g.layers.size(); ++l) {
    if (!g.layers[l].synthetic) block_of_layer[l] = block_of(g.strings[g.layers[l].name]);
  }
  // Work between the layers of a block belongs to the block's own module, "layer1.0", whatever block that lies in.
  const std::set<std::string> names(block_of_layer.begin(), block_of_layer.end());
  for (std::size_t l = 0; l < g.layers.size(); ++l) {
    const std::string name(g.strings[g.layers[l].name]);
    if (!g.layers[l].synthetic && names.count(name) > 0) block_of_layer[l] = name;
  }
  // GPU tasks in order of launch.
  std::vector<std::uint32_t> order;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) && g.launch[t].valid()) order.push_back(t);
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Ns ta = g.measured[g.launch[a].index()];
    const Ns tb = g.measured[g.launch[b].index()];
    return ta != tb ? ta < tb : a < b;
  });
  std::vector<BlockOfLayers> blocks;
  std::map<std::string, std::size_t> index;
  std::size_t current = static_cast<std::size_t>(-1);
  std::size_t last_named = 0;  // tasks behind the last block's last named layer are the head's, not the block's
  for (const std::uint32_t t : order) {
    if (g.phase[t] != Phase::kForward) continue;
    const std::string& name = g.layer[t].valid() ? block_of_layer[g.layer[t].index()] : std::string();
    const bool named = g.layer[t].valid() && !g.layers[g.layer[t].index()].synthetic;
    if (!name.empty()) {
      const auto [it, fresh] = index.try_emplace(name, blocks.size());
      if (fresh) blocks.push_back({name, {}, kNone});
      current = it->second;
    } else if (named && !(current != static_cast<std::size_t>(-1) &&
                          holds(g.strings[g.layers[g.layer[t].index()].name], blocks[current].name))) {
      current = static_cast<std::size_t>(-1);  // a layer outside any block
    }
    if (current == static_cast<std::size_t>(-1)) continue;
    blocks[current].forward.push_back(t);
    if (!name.empty()) last_named = blocks[current].forward.size();
  }
  if (current != static_cast<std::size_t>(-1)) blocks[current].forward.resize(last_named);
  for (const std::uint32_t t : order) {
    if (g.phase[t] != Phase::kBackward || !g.layer[t].valid()) continue;
    const auto it = index.find(block_of_layer[g.layer[t].index()]);
    if (it != index.end() && blocks[it->second].first_backward == kNone) blocks[it->second].first_backward = t;
  }
  if (blocks.size() < 2) blocks.clear();
  return blocks;
}

}  // namespace foretrace::whatif
