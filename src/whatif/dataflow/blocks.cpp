#include "whatif/dataflow/blocks.hpp"

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

// By name, in order of the forward pass; `backward`: their tasks of the backward pass.
struct Found {
  std::vector<BlockOfLayers> blocks;
  std::vector<std::vector<std::uint32_t>> backward;
};

// GPU tasks in order of launch.
std::vector<std::uint32_t> by_launch(const Graph& g) {
  std::vector<std::uint32_t> order;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (graph::is_gpu(g.kind[t]) && g.launch[t].valid()) order.push_back(t);
  }
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    const Ns ta = g.measured[g.launch[a].index()];
    const Ns tb = g.measured[g.launch[b].index()];
    return ta != tb ? ta < tb : a < b;
  });
  return order;
}

Found find_blocks(const Graph& g) {
  std::vector<std::string> block_of_layer(g.layers.size());
  for (std::size_t l = 0; l < g.layers.size(); ++l) {
    if (!g.layers[l].synthetic) block_of_layer[l] = block_of(g.strings[g.layers[l].name]);
  }
  // Work between the layers of a block belongs to the block's own module, "layer1.0", whatever block that is in.
  const std::set<std::string> names(block_of_layer.begin(), block_of_layer.end());
  for (std::size_t l = 0; l < g.layers.size(); ++l) {
    const std::string name(g.strings[g.layers[l].name]);
    if (!g.layers[l].synthetic && names.count(name) > 0) block_of_layer[l] = name;
  }
  const std::vector<std::uint32_t> order = by_launch(g);
  std::vector<BlockOfLayers> blocks;
  std::map<std::string, std::size_t> index;
  std::size_t current = static_cast<std::size_t>(-1);
  std::size_t last_named = 0;  // tasks behind the last block's last named layer are the head's, not the block's
  for (const std::uint32_t t : order) {
    if (g.phase[t] != Phase::kForward) continue;
    const std::string& name = g.layer[t].valid() ? block_of_layer[g.layer[t].index()] : std::string();
    const bool named = g.layer[t].valid() && !g.layers[g.layer[t].index()].synthetic;
    if (!name.empty()) {
      const auto [it, added] = index.try_emplace(name, blocks.size());
      if (added) blocks.push_back({name, {}, kNone});
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
  std::vector<std::vector<std::uint32_t>> backward(blocks.size());
  for (const std::uint32_t t : order) {
    if (g.phase[t] != Phase::kBackward || !g.layer[t].valid()) continue;
    const auto it = index.find(block_of_layer[g.layer[t].index()]);
    if (it == index.end()) continue;
    backward[it->second].push_back(t);
    if (blocks[it->second].first_backward == kNone) blocks[it->second].first_backward = t;
  }
  return {std::move(blocks), std::move(backward)};
}

// Where the first layer of these tasks begins to run, by index; tasks without a layer of their own belong to the one before.
std::vector<std::size_t> starts_of_first(const Graph& g, const std::vector<std::uint32_t>& tasks) {
  std::vector<std::size_t> starts;
  std::uint32_t first = kNone;
  std::uint32_t last = kNone;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const graph::LayerId layer = g.layer[tasks[i]];
    if (!layer.valid() || g.layers[layer.index()].synthetic) continue;
    if (first == kNone) first = layer.value;
    if (layer.value == first && last != first) starts.push_back(i);
    last = layer.value;
  }
  return starts;
}

// The layers of tasks [begin, end), each once for the tasks it has in a row.
std::vector<std::uint32_t> layers_in(const Graph& g, const std::vector<std::uint32_t>& tasks, std::size_t begin,
                                     std::size_t end) {
  std::vector<std::uint32_t> layers;
  for (std::size_t i = begin; i < end; ++i) {
    const graph::LayerId layer = g.layer[tasks[i]];
    if (!layer.valid() || g.layers[layer.index()].synthetic) continue;
    if (layers.empty() || layers.back() != layer.value) layers.push_back(layer.value);
  }
  return layers;
}

// Begins of a block's runs: each begins with the same layer and runs through the same ones. One where there is no such order.
std::vector<std::size_t> runs_of(const Graph& g, const std::vector<std::uint32_t>& tasks) {
  std::vector<std::size_t> starts = starts_of_first(g, tasks);
  if (starts.size() < 2) return {0};
  const std::vector<std::uint32_t> first = layers_in(g, tasks, starts[0], starts[1]);
  if (first.size() < 2) return {0};
  for (std::size_t r = 1; r < starts.size(); ++r) {
    if (layers_in(g, tasks, starts[r], r + 1 < starts.size() ? starts[r + 1] : tasks.size()) != first) return {0};
  }
  starts.front() = 0;
  return starts;
}

// Begins of so many runs in the backward pass; none where they cannot be told apart. A layer that runs twice in a block begins its
// backward pass twice. Where blocks are recomputed, a run begins with the layer that the run before it ended with: there the kernel of
// that layer which comes first marks a run.
std::vector<std::size_t> backward_runs(const Graph& g, const std::vector<std::uint32_t>& tasks, std::size_t runs) {
  std::vector<std::size_t> starts = starts_of_first(g, tasks);
  if (starts.empty() || starts.size() % runs != 0) {
    const auto like_first = [&](std::uint32_t t) {
      return g.layer[t] == g.layer[tasks.front()] && g.name[t] == g.name[tasks.front()];
    };
    starts.clear();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      if (like_first(tasks[i])) starts.push_back(i);
    }
  }
  if (starts.empty() || starts.size() % runs != 0) return {};
  const std::size_t each = starts.size() / runs;
  std::vector<std::size_t> out;
  for (std::size_t r = 0; r < runs; ++r) out.push_back(starts[r * each]);
  return out;
}

// Where no layer has a name (a compiled network, a plain trace): the same kernels again and again, in forward and in backward.
std::vector<BlockOfLayers> blocks_by_kernels(const Graph& g) {
  std::vector<std::uint32_t> forward, backward;
  for (const std::uint32_t t : by_launch(g)) {
    if (g.kind[t] != graph::TaskKind::kKernel) continue;
    if (g.phase[t] == Phase::kForward) forward.push_back(t);
    if (g.phase[t] == Phase::kBackward) backward.push_back(t);
  }
  const auto names = [&](const std::vector<std::uint32_t>& tasks) {
    std::vector<std::uint32_t> out;
    for (const std::uint32_t t : tasks) out.push_back(g.name[t].value);
    return out;
  };
  const Repeats blocks = find_repeats(names(forward));
  if (blocks.times == 0 || backward.empty()) return {};
  Repeats gradients = find_repeats(names(backward), blocks.times);
  // Libraries choose other kernels for some block's gradients: then all blocks have the same share of them.
  if (gradients.times == 0) gradients = {0, backward.size() / blocks.times, blocks.times};
  std::vector<BlockOfLayers> out;
  for (std::size_t b = 0; b < blocks.times; ++b) {
    const auto first = forward.begin() + static_cast<std::ptrdiff_t>(blocks.begin + b * blocks.length);
    out.push_back({"",
                   {first, first + static_cast<std::ptrdiff_t>(blocks.length)},
                   backward[gradients.begin + (blocks.times - 1 - b) * gradients.length]});
  }
  return out;
}

}  // namespace

void drop_entries_outside_stages(std::vector<BlockOfLayers>& blocks) {
  // "features" of "features.2" and of "features.2.0"; the second is an entry of a stage.
  const auto list_of = [](std::string_view block, bool& of_stage) {
    std::size_t end = block.find_last_of('.');
    std::string_view list = block.substr(0, end == std::string_view::npos ? 0 : end);
    of_stage = false;
    for (;;) {
      end = list.find_last_of('.');
      if (end == std::string_view::npos) return list;
      if (list.find_first_not_of("0123456789", end + 1) != std::string_view::npos) return list;
      list = list.substr(0, end);
      of_stage = true;
    }
  };
  std::set<std::string, std::less<>> of_stages;
  for (const BlockOfLayers& b : blocks) {
    bool of_stage = false;
    const std::string_view list = list_of(b.name, of_stage);
    if (of_stage) of_stages.emplace(list);
  }
  std::erase_if(blocks, [&](const BlockOfLayers& b) {
    bool of_stage = false;
    const std::string_view list = list_of(b.name, of_stage);
    return !of_stage && of_stages.contains(list);
  });
}

std::vector<BlockOfLayers> repeated_blocks(const Graph& g) {
  std::vector<BlockOfLayers> blocks = find_blocks(g).blocks;
  if (blocks.size() < 2) blocks.clear();
  return blocks;
}

namespace {

std::vector<BlockOfLayers> all_runs(const Graph& g) {
  // Modules have a type; a compiled graph's range has none.
  const auto no_module = [&](const graph::Layer& l) {
    return l.synthetic || !l.type.valid() || g.strings[l.type].empty();
  };
  if (std::all_of(g.layers.begin(), g.layers.end(), no_module)) return blocks_by_kernels(g);
  Found found = find_blocks(g);
  std::vector<BlockOfLayers> runs;
  for (std::size_t b = 0; b < found.blocks.size(); ++b) {
    BlockOfLayers& block = found.blocks[b];
    const std::vector<std::uint32_t>& backward = found.backward[b];
    const std::vector<std::size_t> begins = runs_of(g, block.forward);
    const std::vector<std::size_t> ends = backward_runs(g, backward, begins.size());
    if (begins.size() < 2 || ends.empty()) {
      runs.push_back(std::move(block));
      continue;
    }
    for (std::size_t r = 0; r < begins.size(); ++r) {
      const std::size_t until = r + 1 < begins.size() ? begins[r + 1] : block.forward.size();
      BlockOfLayers run{block.name, {}, backward[ends[begins.size() - 1 - r]]};  // the last run's gradients come first
      run.forward.assign(block.forward.begin() + static_cast<std::ptrdiff_t>(begins[r]),
                         block.forward.begin() + static_cast<std::ptrdiff_t>(until));
      runs.push_back(std::move(run));
    }
  }
  return runs;
}

// "encoder.layer.3" -> "encoder.layer"
std::string list_of(std::string_view block) {
  std::string_view list = block.substr(0, block.find_last_not_of("0123456789") + 1);
  while (!list.empty() && (list.back() == '.' || list.back() == '_')) list.remove_suffix(1);
  return std::string(list);
}

}  // namespace

std::vector<BlockOfLayers> repeated_runs(const Graph& g) {
  std::vector<BlockOfLayers> runs = all_runs(g);
  if (runs.size() > 1) return runs;
  std::vector<ListOfBlocks> lists = lists_of_blocks(g);
  return lists.empty() ? std::vector<BlockOfLayers>() : std::move(lists.front().blocks);
}

std::vector<ListOfBlocks> lists_of_blocks(const Graph& g) {
  std::vector<BlockOfLayers> found = all_runs(g);
  drop_entries_outside_stages(found);
  std::erase_if(found, [](const BlockOfLayers& b) { return b.forward.empty(); });
  std::vector<ListOfBlocks> lists;
  for (BlockOfLayers& block : found) {
    std::string name = list_of(block.name);
    auto list = std::find_if(lists.begin(), lists.end(), [&](const ListOfBlocks& l) { return l.name == name; });
    if (list == lists.end()) list = lists.insert(lists.end(), {std::move(name), {}});
    list->blocks.push_back(std::move(block));
  }
  const auto is_entry = [](const ListOfBlocks& l) {  // of a list, and not "layer1"
    return !l.name.empty() && l.blocks.front().name[l.name.size()] == '.';
  };
  if (lists.size() == 1 && is_entry(lists.front())) return lists;
  std::erase_if(lists, [](const ListOfBlocks& l) { return l.blocks.size() < 2; });
  return lists;
}

Repeats find_repeats(const std::vector<std::uint32_t>& sequence, std::size_t times) {
  constexpr std::size_t kShortest = 4, kFewest = 3;
  constexpr std::size_t kLongest = 1024;  // a limit on the search, which takes items times lengths
  Repeats best;
  const std::size_t n = sequence.size();
  for (std::size_t length = kShortest; length <= kLongest && length * kFewest <= n; ++length) {
    // Where an item is the same as the one a length later for r items in a row, there are r / length + 1 equal runs.
    std::size_t same = 0;
    for (std::size_t i = 0; i + length <= n; ++i) {
      const bool equal = i + length < n && sequence[i] == sequence[i + length];
      if (equal) {
        ++same;
        continue;
      }
      const std::size_t runs = same / length + 1;
      if (runs >= kFewest && (times == 0 || runs == times) && runs * length > best.times * best.length) {
        best = {i - same, length, runs};
      }
      same = 0;
    }
  }
  return best.times * best.length * 2 >= n ? best : Repeats{};
}

}  // namespace foretrace::whatif
