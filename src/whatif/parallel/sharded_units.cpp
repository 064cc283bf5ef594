#include "whatif/parallel/sharded_units.hpp"

#include <algorithm>
#include <map>

#include "base/saturate.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/model/memory_positions.hpp"

namespace foretrace::whatif {

namespace {

// GPU tasks of the main stream that run the same work in the same phase: more than one where a change repeated it.
class Repeated {
 public:
  explicit Repeated(const Builder& b) : g_(b.m.graph), works_(b.m.works) {
    const GraphLane& lane = g_.lanes[b.gradients.stream];
    for (std::uint32_t t = lane.begin; t < lane.end; ++t) {
      if (const std::uint32_t row = works_.row_of(t); row != kNone) tasks_[{row, g_.phase[t]}].push_back(t);
    }
  }
  [[nodiscard]] std::vector<std::uint32_t> runs(std::uint32_t task) const {
    if (task == kNone) return {};
    const std::uint32_t row = works_.row_of(task);
    const auto found = tasks_.find({row, g_.phase[task]});
    if (row == kNone || found == tasks_.end()) return {task};
    const std::size_t each = std::max<std::size_t>(1, works_[row].kernels);
    const auto at = std::find(found->second.begin(), found->second.end(), task) - found->second.begin();
    std::vector<std::uint32_t> out;
    for (std::size_t i = static_cast<std::size_t>(at) % each; i < found->second.size(); i += each)
      out.push_back(found->second[i]);
    return out;
  }

 private:
  const Graph& g_;
  const work::Works& works_;
  std::map<std::pair<std::uint32_t, Phase>, std::vector<std::uint32_t>> tasks_;
};

class UnitFinder {
 public:
  explicit UnitFinder(const Builder& b) : b_(b), g_(b.m.graph), repeated_(b) {}

  std::vector<ShardedUnit> run() {
    const std::vector<BlockOfLayers> blocks = repeated_blocks(g_);
    for (const BlockOfLayers& block : blocks)
      add_unit(block.name, first_on_stream(block.forward), block.first_backward);
    by_layer_ = blocks.empty();
    if (by_layer_) add_large_layers();
    root_ = units_.size();
    units_.push_back({.root = true});
    for (std::uint32_t t = g_.lanes[b_.gradients.stream].begin; t < g_.lanes[b_.gradients.stream].end; ++t) {
      if (g_.phase[t] != Phase::kForward) continue;
      units_[root_].first_forward = repeated_.runs(t);
      break;
    }
    for (std::uint32_t i = 0; i < b_.gradients.list.size(); ++i) add_gradient(i);
    std::erase_if(units_, [](const ShardedUnit& u) { return u.gradients.empty(); });
    const auto first = [](const ShardedUnit& u) { return u.first_forward.empty() ? kNone : u.first_forward.front(); };
    std::stable_sort(units_.begin(), units_.end(), [&](const ShardedUnit& x, const ShardedUnit& y) {
      return first(x) != first(y) ? first(x) < first(y) : x.root && !y.root;
    });
    return std::move(units_);
  }

 private:
  [[nodiscard]] std::uint32_t first_on_stream(const std::vector<std::uint32_t>& tasks) const {
    const auto first =
        std::find_if(tasks.begin(), tasks.end(), [&](std::uint32_t t) { return g_.lane[t] == b_.gradients.stream; });
    return first == tasks.end() ? kNone : *first;
  }

  // A unit for each run of these layers: the tasks are those that begin the first one.
  void add_unit(const std::string& name, std::uint32_t first_forward, std::uint32_t first_backward) {
    const std::size_t passes = b_.gradients.passes;
    const std::vector<std::uint32_t> forward = repeated_.runs(first_forward);
    const std::vector<std::uint32_t> backward = repeated_.runs(first_backward);
    const std::size_t copies = std::max<std::size_t>(1, forward.size() / passes);
    places_[name] = {units_.size(), copies};
    for (std::size_t k = 0; k < copies; ++k) {
      ShardedUnit unit;
      for (std::size_t p = 0; p < passes; ++p) {
        if (p * copies + k < forward.size()) unit.first_forward.push_back(forward[p * copies + k]);
        if (p * copies + k < backward.size()) unit.first_backward.push_back(backward[p * copies + k]);
      }
      units_.push_back(std::move(unit));
    }
  }

  // Layers whose gradients fill a bucket.
  void add_large_layers() {
    std::map<std::string, std::int64_t> bytes;
    for (std::uint32_t i = 0; i < b_.gradients.list.size(); ++i) {
      if (const std::string name = unit_name(b_.gradients.list[i]); !name.empty()) bytes[name] += b_.gradients.bytes(i);
    }
    std::erase_if(bytes,
                  [&](const auto& layer) { return static_cast<double>(layer.second) < b_.how.bucket_mb * (1 << 20); });
    std::map<std::string, std::pair<std::uint32_t, std::uint32_t>> first;  // of forward, of backward
    for (std::uint32_t t = g_.lanes[b_.gradients.stream].begin; t < g_.lanes[b_.gradients.stream].end; ++t) {
      const std::string name(layer_name(t));
      if (!bytes.contains(name) || (g_.phase[t] != Phase::kForward && g_.phase[t] != Phase::kBackward)) continue;
      auto& [forward, backward] = first.try_emplace(name, kNone, kNone).first->second;
      std::uint32_t& mine = g_.phase[t] == Phase::kForward ? forward : backward;
      if (mine == kNone) mine = t;
    }
    for (const auto& [name, tasks] : first) {
      if (tasks.first != kNone) add_unit(name, tasks.first, tasks.second);
    }
  }

  [[nodiscard]] std::string_view layer_name(std::uint32_t task) const {
    return task == kNone || !g_.layer[task].valid() ? std::string_view()
                                                    : g_.strings[g_.layers[g_.layer[task].index()].name];
  }

  [[nodiscard]] std::string unit_name(const Gradient& gradient) const {
    std::string_view layer = layer_name(gradient.gpu);
    for (const std::uint32_t t : gradient.side) {
      if (!g_.layer[t].valid()) continue;
      layer = layer_name(t);
      break;
    }
    return by_layer_ ? std::string(layer) : block_of(layer);
  }

  void add_gradient(std::uint32_t i) {
    const Gradient& gradient = b_.gradients.list[i];
    const auto found = places_.find(unit_name(gradient));
    std::size_t at = root_;
    if (found != places_.end()) {
      at = found->second.first;
      if (const std::size_t copies = found->second.second; copies > 1) {
        const std::vector<std::uint32_t> runs = repeated_.runs(gradient.gpu);
        at += static_cast<std::size_t>(std::find(runs.begin(), runs.end(), gradient.gpu) - runs.begin()) % copies;
      }
    }
    ShardedUnit& unit = units_[at];
    unit.gradients.push_back(i);
    unit.elements += gradient.elements;
    unit.last_gradient = std::max(unit.last_gradient, i);
  }

  const Builder& b_;
  const Graph& g_;
  Repeated repeated_;
  std::vector<ShardedUnit> units_;
  std::size_t root_ = 0;
  bool by_layer_ = false;  // no blocks repeat
  std::map<std::string, std::pair<std::size_t, std::size_t>>
      places_;  // by block or layer: its first unit, and how many
};

}  // namespace

std::vector<ShardedUnit> sharded_units(const Builder& builder) { return UnitFinder(builder).run(); }

void shard_memory(Builder& b, const std::vector<ShardedUnit>& units, const ShardedTypes& types, int shards) {
  if (!b.m.memory) return;
  memory::Curve& c = *b.m.memory;
  const std::int64_t parameters = b.gradients.elements * types.kept;
  const std::int64_t states = std::max<std::int64_t>(0, c.start_bytes - b.gradients.bytes());
  const bool on_host = b.how.cpu_offload;
  const auto rest = [&](std::int64_t bytes) { return on_host ? 0 : bytes / shards; };
  c.start_bytes += rest(states) - states + rest(parameters) - b.gradients.bytes();
  c.state_bytes = rest(c.state_bytes);
  c.parameter_bytes = rest(parameters);
  for (memory::Block& block : c.blocks) {
    if (block.kind == memory::Kind::kGradient) block.bytes = rest(block.bytes);
  }
  const MemoryPositions positions(b.m);
  std::vector<memory::Block> added;
  const auto add = [&](std::int64_t bytes, std::uint32_t from, std::uint32_t to, memory::Stage stage) {
    if (bytes > 0 && from < to)
      added.push_back(
          {.bytes = bytes, .allocated = std::max(1U, from), .freed = to, .stage = stage, .of_parameters = true});
  };
  std::int64_t largest = 0;
  for (const ShardedUnit& u : units) largest = std::max(largest, u.root ? 0 : u.elements);
  for (std::size_t i = 0; i < units.size(); ++i) {
    const ShardedUnit& u = units[i];
    const std::int64_t whole = u.elements * types.gathered;
    if (u.root || u.first_backward.empty() || !b.how.reshard) {
      add(whole, u.first_forward.empty() ? 1 : positions.of(u.first_forward.front()), UINT32_MAX,
          memory::Stage::kForward);
      continue;
    }
    // Gathered one ahead: until the next but one begins. What travels is a buffer of its own.
    const std::uint32_t begins = positions.of(u.first_forward.front());
    const std::uint32_t behind = i + 1 < units.size() && !units[i + 1].first_forward.empty()
                                     ? positions.of(units[i + 1].first_forward.front())
                                     : c.backward_from;
    add(2 * whole, begins, std::max(begins + 1, behind), memory::Stage::kForward);
    const std::uint32_t again = positions.of(u.first_backward.front());
    const std::uint32_t done = positions.of(b.gradients.list[u.last_gradient].gpu);
    add(2 * whole + u.elements * types.gathered, again, std::max(again + 1, done), memory::Stage::kBackward);
    add(u.elements * types.reduced, done, done + 1, memory::Stage::kBackward);
  }
  memory::add_blocks(c, added);
}

}  // namespace foretrace::whatif
