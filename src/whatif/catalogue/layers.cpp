// A deeper or shallower model of the same blocks. A block is a stretch of the launching thread in each pass; the GPU tasks launched
// there are its work. Copies of a block are inserted after it, with everything inside.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "base/saturate.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/dataflow/block_memory.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/parallel/gradients.hpp"

namespace foretrace::whatif {
namespace {

constexpr int kMostBlocks = 1024;  // a guard: every block is a copy in the graph

// CPU tasks (begin, end] of one thread.
struct Stretch {
  std::uint32_t lane = kNone, begin = kNone, end = kNone;
  [[nodiscard]] bool holds(const Graph& g, std::uint32_t cpu) const {
    return g.lane[cpu] == lane && begin < cpu && cpu <= end;
  }
};

// Calls that launch GPU work, ascending on each thread.
class Launches {
 public:
  explicit Launches(const Graph& g) : g_(g), launches_(g.size(), false) {
    for (std::uint32_t t = 0; t < g.size(); ++t) {
      if (graph::is_gpu(g.kind[t]) && g.launch[t].valid()) launches_[g.launch[t].index()] = true;
    }
  }
  // The call before the launch of a GPU task, on its thread; CPU work between the two belongs to the task.
  [[nodiscard]] std::uint32_t before(std::uint32_t gpu_task) const {
    std::uint32_t cpu = g_.launch[gpu_task].value;
    const std::uint32_t first = g_.lanes[g_.lane[cpu]].begin;
    while (cpu > first && !launches_[cpu - 1]) --cpu;
    return cpu > first ? cpu - 1 : first;
  }

 private:
  const Graph& g_;
  std::vector<bool> launches_;
};

struct DepthBlock {
  BlockOfLayers layers;
  std::vector<std::string> parts;  // names of its layers in order, without its own
  std::vector<std::string> kind;   // those that hold no others: equal in blocks of one kind
  Stretch forward, backward;       // backward: of a training step
};

// Blocks of one list of modules ("encoder.layer"), in order of the forward pass.
struct BlockList {
  std::string name;  // empty where the trace names no layers
  std::vector<DepthBlock> blocks;
};

std::vector<std::string> parts_of(const Graph& g, const BlockOfLayers& block) {
  std::vector<std::string> parts;
  for (const std::uint32_t t : block.forward) {
    if (block.name.empty() || !g.layer[t].valid() || g.layers[g.layer[t].index()].synthetic) continue;
    std::string_view name = g.strings[g.layers[g.layer[t].index()].name];
    name.remove_prefix(std::min(name.size(), block.name.size()));
    if (parts.empty() || parts.back() != name) parts.emplace_back(name);
  }
  return parts;
}

std::vector<std::string> without_modules_of_others(std::vector<std::string> parts) {
  const std::set<std::string, std::less<>> names(parts.begin(), parts.end());
  std::erase_if(parts, [&](const std::string& part) {
    const auto held = names.lower_bound(part + '.');
    return held != names.end() && held->starts_with(part + '.');
  });
  parts.erase(std::unique(parts.begin(), parts.end()), parts.end());
  return parts;
}

// Where the backward pass leaves the blocks of a list: the first work of a layer outside it behind the first block's.
std::uint32_t end_of_backward(const Graph& g, const Launches& launches, const BlockList& list) {
  const Stretch& first = list.blocks.front().backward;
  std::uint32_t end = kNone;
  for (std::uint32_t t = 0; first.begin != kNone && t < g.size(); ++t) {
    if (!graph::is_gpu(g.kind[t]) || g.phase[t] != Phase::kBackward || !g.launch[t].valid() || !g.layer[t].valid())
      continue;
    const std::uint32_t call = g.launch[t].value;
    if (g.lane[call] != first.lane || call <= first.begin || g.layers[g.layer[t].index()].synthetic) continue;
    if (std::string_view(g.strings[g.layers[g.layer[t].index()].name]).starts_with(list.name)) continue;
    end = std::min(end, launches.before(t));
  }
  return end;
}

void add_block(const Graph& g, const Launches& launches, BlockOfLayers block, BlockList& list) {
  DepthBlock b{.layers = std::move(block), .parts = {}, .kind = {}, .forward = {}, .backward = {}};
  b.parts = parts_of(g, b.layers);
  b.kind = without_modules_of_others(b.parts);
  const std::uint32_t first = b.layers.forward.front();
  b.forward = {g.lane[g.launch[first].index()], launches.before(first), g.launch[b.layers.forward.back()].value};
  if (!list.blocks.empty()) {
    Stretch& previous = list.blocks.back().forward;
    if (previous.lane == b.forward.lane) previous.end = b.forward.begin;
  }
  if (const std::uint32_t gradient = b.layers.first_backward; gradient != kNone && g.launch[gradient].valid()) {
    b.backward = {g.lane[g.launch[gradient].index()], launches.before(gradient), kNone};
    if (!list.blocks.empty()) {
      const Stretch& earlier = list.blocks.back().backward;
      if (earlier.lane == b.backward.lane && earlier.begin > b.backward.begin) b.backward.end = earlier.begin;
    }
  }
  list.blocks.push_back(std::move(b));
}

// The lists of blocks, with where each block runs. The last one's forward pass ends with its last task; the first one's backward pass
// where a layer before the blocks begins its own, and has no visible end where there is none.
std::vector<BlockList> block_lists(const Graph& g) {
  const Launches launches(g);
  std::vector<BlockList> lists;
  for (ListOfBlocks& found : lists_of_blocks(g)) {
    lists.push_back({found.name, {}});
    for (BlockOfLayers& block : found.blocks) add_block(g, launches, std::move(block), lists.back());
  }
  for (BlockList& list : lists) {
    if (!list.name.empty()) list.blocks.front().backward.end = end_of_backward(g, launches, list);
  }
  return lists;
}

// Everything that runs in a stretch and on the GPU because of it.
Selection tasks_of(const Draft& draft, const Stretch& stretch) {
  const Graph& g = draft.base();
  return draft.select({.where = [&](std::uint32_t t) {
    if (!graph::is_gpu(g.kind[t])) return stretch.holds(g, t);
    return g.launch[t].valid() && stretch.holds(g, g.launch[t].value);
  }});
}

// The blocks of a list that can be copied and taken out: the largest kind of equal ones whose stretches are known. What runs behind the
// last named layer of the last block belongs to no layer, so that block may lack a part which the others have.
std::vector<const DepthBlock*> equal_blocks(const BlockList& list, bool training) {
  std::map<std::vector<std::string>, std::vector<const DepthBlock*>> kinds;
  for (const DepthBlock& b : list.blocks) kinds[b.kind].push_back(&b);
  std::vector<const DepthBlock*> best;
  for (auto& [kind, blocks] : kinds) {
    if (blocks.size() > best.size()) best = blocks;
  }
  if (best.size() < std::min<std::size_t>(2, list.blocks.size())) return {};
  const std::vector<std::string>& whole = best.front()->parts;
  std::erase_if(best, [&](const DepthBlock* b) { return b->parts != whole || (training && b->backward.end == kNone); });
  return best;
}

class Depth {
 public:
  Depth(Model& m, Draft& draft) : m_(m), draft_(draft) {}

  // `copies` more of this block; or -1: without it.
  void change(const DepthBlock& block, int copies) {
    count_parameters(block, copies);
    if (m_.memory) count_activations(block, copies);
    for (const Stretch& stretch : {block.forward, block.backward}) {
      if (stretch.end == kNone) continue;
      const Selection tasks = tasks_of(draft_, stretch);
      if (copies < 0) draft_.remove(tasks);
      std::vector<std::uint32_t> last = tasks;
      for (int i = 0; i < copies; ++i) last = draft_.clone(tasks, last);
    }
  }

  // The update follows the parameters: its kernels their elements, its CPU time their number.
  void finish() {
    if (more_activations_.empty() && more_elements_ == 0) return;
    if (m_.memory) memory::add_blocks(*m_.memory, more_activations_);
    if (more_elements_ == 0 || m_.parameter_elements <= 0) return;
    const double by = 1 + static_cast<double>(more_elements_) / static_cast<double>(m_.parameter_elements);
    const double tensors =
        1 + static_cast<double>(more_tensors_) / static_cast<double>(std::max<std::int64_t>(1, m_.parameter_tensors));
    const Graph& g = draft_.base();
    draft_.scale(draft_.select({.gpu = true, .phase = Phase::kOptimizer}), by);
    draft_.scale(draft_.select(
                     {.phase = Phase::kOptimizer, .where = [&](std::uint32_t t) { return !graph::is_gpu(g.kind[t]); }}),
                 tensors);
    m_.parameter_elements = saturated_sum(m_.parameter_elements, more_elements_);
    m_.parameter_tensors = saturated_sum(m_.parameter_tensors, more_tensors_);
    if (m_.memory) grow_resident(*m_.memory, by);
  }

 private:
  void count_parameters(const DepthBlock& block, int copies) {
    if (block.backward.end == kNone) return;
    if (!gradients_) gradients_ = find_gradients(m_).value_or(Gradients{});
    for (const Gradient& gradient : gradients_->list) {
      if (!block.backward.holds(m_.graph, gradient.cpu)) continue;
      more_elements_ = saturated_sum(more_elements_, gradient.elements * copies);
      more_tensors_ += copies;
    }
    if (gradients_->guessed.empty() || noted_) return;
    m_.not_modelled.push_back(gradients_->guessed);
    noted_ = true;
  }

  // Copies of what the block keeps for its backward pass are there at the same time.
  void count_activations(const DepthBlock& block, int copies) {
    memory::Curve& c = *m_.memory;
    const std::vector<std::vector<std::size_t>> kept = activations_of(m_, {block.layers});
    for (const std::size_t i : kept.front()) {
      for (int k = 0; k < copies; ++k) more_activations_.push_back(c.blocks[i]);
      if (copies < 0) c.blocks[i].bytes = 0;
    }
  }

  static void grow_resident(memory::Curve& c, double by) {
    const auto more = [by](std::int64_t bytes) { return saturated(static_cast<double>(bytes) * (by - 1)); };
    for (memory::Block& b : c.blocks) {
      if (b.kind == memory::Kind::kGradient) b.bytes = saturated_sum(b.bytes, more(b.bytes));
    }
    const std::int64_t parameters = more(c.parameter_bytes);
    const std::int64_t states = more(c.state_bytes);
    c.parameter_bytes = saturated_sum(c.parameter_bytes, parameters);
    c.state_bytes = saturated_sum(c.state_bytes, states);
    c.start_bytes = saturated_sum(c.start_bytes, saturated_sum(parameters, states));
  }

  Model& m_;
  Draft& draft_;
  std::optional<Gradients> gradients_;
  std::vector<memory::Block> more_activations_;
  std::int64_t more_elements_ = 0, more_tensors_ = 0;
  bool noted_ = false;
};

std::string names_of(const std::vector<BlockList>& lists) {
  std::string names;
  for (const BlockList& l : lists)
    names += fmt::format("{}{} ({})", names.empty() ? "" : ", ", l.name, l.blocks.size());
  return names;
}

Status change_depth(const BlockList& list, std::size_t wanted, bool training, Depth& depth) {
  const std::size_t now = list.blocks.size();
  const std::vector<const DepthBlock*> equal = equal_blocks(list, training);
  const std::string where = list.name.empty() ? "" : " of " + list.name;
  if (equal.empty()) return fail(ErrorCode::kDeclined, fmt::format("the blocks{} differ: none repeats", where));
  if (wanted >= now) {
    if (wanted > now) depth.change(*equal[(equal.size() - 1) / 2], static_cast<int>(wanted - now));
    return {};
  }
  if (now - wanted > equal.size()) {
    return fail(ErrorCode::kDeclined,
                fmt::format("of the {} blocks{}, {} are of one kind and can be taken out", now, where, equal.size()));
  }
  for (std::size_t i = 0; i < now - wanted; ++i) depth.change(*equal[equal.size() - 1 - i], -1);
  return {};
}

Status apply_layers(Model& m, Draft& draft, const Parameters& parameters) {
  const Graph& g = m.graph;
  const auto communicates = [](TaskKind k) { return k == TaskKind::kCollective; };
  if (std::any_of(g.kind.begin(), g.kind.end(), communicates))
    return fail(ErrorCode::kDeclined, "the step communicates with other ranks: what each block sends is not known");
  std::vector<BlockList> lists = block_lists(g);
  if (lists.empty()) return fail(ErrorCode::kDeclined, "no block of layers repeats in this step");
  if (const std::vector<std::string> wanted = parameters.list("of"); !wanted.empty()) {
    const std::string all = names_of(lists);
    std::erase_if(lists, [&](const BlockList& l) {
      return std::none_of(wanted.begin(), wanted.end(), [&](const std::string& w) { return glob_match(w, l.name); });
    });
    if (lists.empty()) return fail(ErrorCode::kDeclined, "no such list of blocks; there are: " + all);
  } else if (lists.size() > 1 && parameters.given("n")) {
    return fail(ErrorCode::kDeclined,
                fmt::format("several lists of blocks repeat: {}; choose with of=", names_of(lists)));
  }
  const bool training = std::any_of(g.phase.begin(), g.phase.end(), [](Phase p) { return p == Phase::kBackward; });
  Depth depth(m, draft);
  for (const BlockList& list : lists) {
    if (list.blocks.size() == 1) {
      m.not_modelled.push_back(fmt::format(
          "the trace has one block of {}: whether the work after its last named layer belongs to the block is unknown",
          list.name));
    }
    const double now = static_cast<double>(list.blocks.size());
    const double wanted = parameters.given("n") ? parameters.number("n") : std::round(parameters.number("x") * now);
    if (wanted < 1 || wanted > kMostBlocks)
      return fail(ErrorCode::kDeclined,
                  fmt::format("{} blocks: between 1 and {} can be asked for", wanted, kMostBlocks));
    FORETRACE_TRY_VOID(change_depth(list, static_cast<std::size_t>(wanted), training, depth));
  }
  depth.finish();
  draft.note_change();
  return {};
}

Status check(const Parameters& p) {
  if (p.given("n") && p.given("x")) return fail(ErrorCode::kUsage, "layers takes either n= or x=");
  return {};
}

std::string code_for(const Parameters& p, bool /*training*/) {
  if (!p.given("n") && !p.given("x")) return {};
  return p.given("n") ? fmt::format("config.num_hidden_layers = {:g}", p.number("n"))
                      : fmt::format("config.num_hidden_layers = int({:g} * config.num_hidden_layers)", p.number("x"));
}

const Registered kRegistered(
    {.name = "layers",
     .about = "a deeper or shallower model: its repeated block n times",
     .parameters = {{.name = "n",
                     .about = "number of blocks",
                     .type = ParameterType::kNumber,
                     .check = whole_number<kMostBlocks>},
                    {.name = "x",
                     .about = "factor on their number, where n is not given",
                     .default_value = "2",
                     .type = ParameterType::kNumber},
                    {"of", "globs of lists of blocks (encoder.layer), separated by |; the only one when not given"}},
     .assumes = "more blocks cost what a block in the middle costs; the update follows the parameters; embedding, "
                "head and loss stay",
     .source = "equal blocks run equal kernels",
     .not_modelled = "caches and clocks that a longer step changes; several workers",
     .changes = Changes::kDepth,
     .parts = {.memory = Part::kModelled},
     .code = "config.num_hidden_layers = …",
     .code_for = code_for,
     .effort = Effort::kLine,
     .stage = Stage::kBatch,
     .repeats_work = true,
     .validated = true,
     .apply = apply_layers,
     .check = check,
     .whole_program = "a compiled program's kernels do not show which block they belong to"});

}  // namespace
}  // namespace foretrace::whatif
