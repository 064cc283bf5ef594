#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/dataflow/block_memory.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/dataflow/dataflow.hpp"
#include "whatif/dataflow/layer_regions.hpp"
#include "whatif/dataflow/op_facts.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"
#include "whatif/model/use_code.hpp"
#include "whatif/model/whole_number.hpp"
#include "whatif/rewrite/scaling.hpp"

namespace foretrace::whatif {
namespace {

// By how much the forward pass between two positions goes beyond what it leaves behind.
std::int64_t beyond_kept(const memory::Curve& c, std::uint32_t first, std::uint32_t last) {
  std::vector<std::int64_t> change(last - first + 2, 0);
  for (const memory::Block& b : c.blocks) {
    if (b.stage != memory::Stage::kForward || b.allocated < first || b.allocated > last) continue;
    change[b.allocated - first] += b.bytes;
    if (b.freed <= last) change[b.freed - first] -= b.bytes;
  }
  std::int64_t level = 0;
  std::int64_t most = 0;
  for (const std::int64_t by : change) {
    level += by;
    most = std::max(most, level);
  }
  return most - level;
}

// What a selective policy keeps: results of products and of attention, which cost more to compute again than to keep. Or of every second
// product by a weight, which halves what they take.
class Kept {
 public:
  Kept(const Model& m, const Dataflow& flow, const std::vector<BlockOfLayers>& blocks, std::string_view mode)
      : m_(m), flow_(flow), selective_(mode != "full") {
    if (mode != "alternate") return;
    for (const BlockOfLayers& b : blocks) {
      std::uint32_t before = kNone;
      int products = 0;
      for (const std::uint32_t t : b.forward) {
        const std::uint32_t u = unit_of(t);
        if (u == before || u == kNone || !multiplies_weights(flow.units[u].name)) continue;
        before = u;
        if (++products % 2 == 0) again_.insert(u);
      }
    }
  }

  [[nodiscard]] bool unit(std::uint32_t unit) const {
    if (!selective_ || unit == kNone || again_.contains(unit)) return false;
    const std::string_view name = flow_.units[unit].name;
    return multiplies_weights(name) || name == "aten::matmul" || name == "aten::bmm" || name == "aten::_grouped_mm" ||
           name.find("attention") != std::string_view::npos;
  }
  [[nodiscard]] bool selective() const { return selective_; }
  /// The product itself; casts of its operands run again.
  [[nodiscard]] bool task(std::uint32_t task) const {
    const work::Work* w = m_.works.of(task);
    return selective_ && w != nullptr && is_product(*w) && !again_.contains(unit_of(task));
  }
  [[nodiscard]] bool result(const memory::Block& b) const {
    if (!selective_ || b.op == kNone || !unit(flow_.unit_of(b.op))) return false;
    // A cast's copy of an operand.
    const bool product = multiplies_weights(flow_.units[flow_.unit_of(b.op)].name);
    return !b.workspace && !(product && m_.trace->name(b.op) == "aten::empty_strided");
  }

 private:
  [[nodiscard]] std::uint32_t unit_of(std::uint32_t task) const {
    const EventId op = m_.graph.op[task];
    return op.valid() ? flow_.unit_of(op.value) : kNone;
  }

  const Model& m_;
  const Dataflow& flow_;
  bool selective_;
  std::set<std::uint32_t> again_;  // products that run again
};

// Activations of a block live until its forward is over, and again while its backward runs; its output stays, for the
// next block to start from. Says whether any activation is known to be a block's.
bool shorten_lives(Model& m, const std::vector<BlockOfLayers>& blocks, const Kept& kept) {
  memory::Curve& c = *m.memory;
  std::vector<memory::Block> second;
  for (const std::vector<std::size_t>& mine : activations_of(m, blocks)) {
    if (mine.size() < 2) continue;
    // Its result is the last allocation, but for statistics of a norm, which are a row's width smaller.
    const std::size_t few = std::min<std::size_t>(3, mine.size());
    std::int64_t most = 0;
    for (std::size_t k = 1; k <= few; ++k) most = std::max(most, c.blocks[mine[mine.size() - k]].bytes);
    std::size_t result = mine.back();
    for (std::size_t k = 1; k <= few; ++k) {
      result = mine[mine.size() - k];
      if (c.blocks[result].bytes * 16 >= most) break;
    }
    const std::uint32_t forward_end = c.blocks[mine.back()].allocated;
    std::uint32_t backward_begin = UINT32_MAX;
    for (const std::size_t i : mine) backward_begin = std::min(backward_begin, c.blocks[i].freed);
    if (backward_begin == UINT32_MAX || backward_begin <= forward_end) continue;
    // Running again, the block holds what it held for a moment the first time, too.
    const std::int64_t moment = beyond_kept(c, c.blocks[mine.front()].allocated, forward_end);
    if (moment > 0) {
      second.push_back({.bytes = moment,
                        .allocated = backward_begin - 1,
                        .freed = backward_begin,
                        .stage = memory::Stage::kBackward,
                        .op = c.blocks[result].op});
    }
    // A policy keeps what its operations give, whether or not backward reads it.
    const std::uint32_t forward_begin = c.blocks[mine.front()].allocated;
    for (memory::Block& b : c.blocks) {
      const bool inside =
          b.stage == memory::Stage::kForward && b.allocated >= forward_begin && b.allocated < forward_end;
      if (!inside || b.freed > forward_end || !kept.result(b)) continue;
      b.freed = backward_begin;
      b.kind = memory::Kind::kActivation;
    }
    for (const std::size_t i : mine) {
      if (i == result || kept.result(c.blocks[i])) continue;
      memory::Block again = c.blocks[i];
      again.allocated = backward_begin - 1;
      again.kind = memory::Kind::kTemporary;
      c.blocks[i].freed = forward_end;
      c.blocks[i].kind = memory::Kind::kTemporary;
      second.push_back(again);
    }
  }
  if (second.empty()) return false;
  memory::add_blocks(c, second);
  return true;
}

// Recomputation stops where the last tensor that backward needs is known. What comes behind it does not run again; nor does
// the last operation itself when it keeps its inputs alone (a product at the end of a block).
std::vector<std::uint32_t> recomputed(const Graph& g, const Dataflow& flow, std::vector<std::uint32_t> tasks) {
  while (!tasks.empty()) {
    const EventId op = g.op[tasks.back()];
    const std::uint32_t unit = op.valid() ? flow.unit_of(op.value) : kNone;
    if (unit == kNone || keeps_result(flow.units[unit].name) || keeps_more(flow.units[unit].name)) break;
    const bool last = keeps_input(flow.units[unit].name);
    while (!tasks.empty() && g.op[tasks.back()].valid() && flow.unit_of(g.op[tasks.back()].value) == unit)
      tasks.pop_back();
    if (last) break;
  }
  return tasks;
}

struct CalledCollective {
  std::uint32_t task = kNone;
  Ns called = 0;
};

// Collectives that move activations, and would run again with them. What follows a product whose result is kept is kept as well.
std::vector<CalledCollective> collectives_again(const Model& m, const Kept& kept) {
  const Graph& g = m.graph;
  std::vector<CalledCollective> out;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    for (std::uint32_t d = g.dep_begin[t]; d < g.dep_begin[t + 1]; ++d) {
      const std::uint32_t to = g.dep_to[d];
      if (g.dep_kind[d] != DependencyKind::kLaunch || g.kind[to] != TaskKind::kCollective || !moves_samples(m, to))
        continue;
      if (kept.selective() && g.task_name(to).find("sum of a row product") != std::string_view::npos) continue;
      // A recorded call is communication's, wherever it was made: whose block it is in, its time tells.
      if (g.phase[t] == Phase::kForward || g.phase[t] == Phase::kCommunication) out.push_back({to, g.measured[t]});
    }
  }
  return out;
}

// The same with the collectives between them: what tensor parallelism reduces runs again, too.
std::vector<std::uint32_t> with_collectives(const Model& m, const std::vector<CalledCollective>& collectives,
                                            std::vector<std::uint32_t> tasks) {
  if (tasks.empty() || collectives.empty()) return tasks;
  const Graph& g = m.graph;
  std::vector<CalledCollective> all;
  for (const std::uint32_t t : tasks) all.push_back({t, g.launch[t].valid() ? g.measured[g.launch[t].index()] : -1});
  const Ns first = all.front().called, last = all.back().called;
  for (const CalledCollective& c : collectives) {
    if (c.called >= first && c.called <= last) all.push_back(c);
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const CalledCollective& a, const CalledCollective& b) { return a.called < b.called; });
  tasks.clear();
  for (const CalledCollective& c : all) tasks.push_back(c.task);
  return tasks;
}

Status apply_checkpoint(Model& m, Draft& draft, const Parameters& parameters) {
  for (const Model::Applied& before : m.applied) {
    if (before.changes == Changes::kLaunches) {
      return fail(ErrorCode::kDeclined, before.whatif + " captured the pass as it was: put this change in front of it");
    }
    if (before.changes != Changes::kPlacement) continue;
    return fail(ErrorCode::kDeclined,
                fmt::format("a block that is computed again keeps nothing for {} to move: the two do not add up",
                            before.whatif));
  }
  const Graph& g = m.graph;
  std::vector<BlockOfLayers> blocks = repeated_runs(g);
  const std::vector<std::string> wanted = parameters.list("layers");
  if (!wanted.empty() && !blocks.empty() && blocks.front().name.empty())
    return fail(ErrorCode::kDeclined, "the trace names no layers (record with foretrace.record, or with_modules=True)");
  if (!wanted.empty() && !blocks.empty()) {
    std::vector<std::string> names;
    for (const BlockOfLayers& b : blocks) names.push_back(b.name);
    for (const std::string& w : wanted) {
      if (std::none_of(names.begin(), names.end(), [&](const std::string& n) { return glob_match(w, n); }))
        return no_such_layer(w, names);
    }
    std::erase_if(blocks, [&](const BlockOfLayers& b) {
      return std::none_of(wanted.begin(), wanted.end(), [&](const std::string& w) { return glob_match(w, b.name); });
    });
  }
  if (wanted.empty()) drop_entries_outside_stages(blocks);
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  std::erase_if(blocks, [&](const BlockOfLayers& b) { return !b.name.empty() && recomputes(*has, b.name); });
  if (blocks.empty()) {
    return fail(ErrorCode::kDeclined, "no block of layers repeats in this step");
  }
  if (blocks.front().name.empty()) {
    if (has->graphs) return fail(ErrorCode::kDeclined, "the trace names no layers, and the step runs as a CUDA graph");
    m.not_modelled.push_back(
        fmt::format("the trace names no layers: {} blocks were found as repetitions in its kernels", blocks.size()));
  }
  if (blocks.size() == 1) {
    m.not_modelled.push_back(
        fmt::format("the trace has one block, {}: what runs behind its last named layer is not known to be the block's",
                    blocks.front().name));
  }
  if (parameters.given("blocks")) {
    const auto asked = static_cast<std::size_t>(parameters.number("blocks"));
    if (asked < blocks.size()) blocks.resize(asked);
  }
  const std::shared_ptr<const Dataflow> shared = shared_flow(m);
  const Dataflow& flow = *shared;
  const Kept kept(m, flow, blocks, parameters.text("mode"));
  if (m.memory && !shorten_lives(m, blocks, kept)) {
    m.not_modelled.emplace_back(
        "memory: no activation could be assigned to a block, so the peak is that of the unchanged step");
  }
  const Ns launch = m.launch_time(Phase::kForward);
  const Ns call = m.cpu_time(m.host.ddp.collective_us, Phase::kBackward);
  const std::vector<CalledCollective> collectives = collectives_again(m, kept);
  const bool reentrant = parameters.text("reentrant") == "1";
  // A compiler writes the second forward into the backward pass: no hooks, no contexts.
  const double share = has->compiled ? 0 : reentrant ? m.host.checkpoint.reentrant_share : 1;
  const Ns around_forward = m.cpu_time(share * m.host.checkpoint.forward_us, Phase::kForward);
  const Ns around_backward = m.cpu_time(share * m.host.checkpoint.backward_us, Phase::kBackward);
  for (const BlockOfLayers& b : blocks) {
    if (b.forward.empty() || b.first_backward == kNone || !g.launch[b.first_backward].valid()) continue;
    if (const Place begin = place_before(g, b.forward.front()); begin.known())
      draft.insert_cpu(begin.cpu, "checkpoint", around_forward, Phase::kForward);
    // The block's forward again, in front of its first backward kernel, launched by the thread that runs backward.
    Place at = place_before(g, b.first_backward);
    at.cpu = draft.insert_cpu(at.cpu, "checkpoint", around_backward, Phase::kBackward);
    // The reentrant kind runs the whole block again; the other stops where backward has all it needs, which operations tell that
    // a compiler has left.
    const bool whole = reentrant || has->compiled;
    for (const std::uint32_t t : with_collectives(m, collectives, whole ? b.forward : recomputed(g, flow, b.forward))) {
      if (kept.task(t)) continue;
      const bool communicates = g.kind[t] == TaskKind::kCollective;
      at = draft.insert({.name = std::string(g.task_name(t)),
                         .cost = g.cost[t],
                         .phase = Phase::kBackward,
                         .layer = g.layer[t],
                         .kind = g.kind[t],
                         .after = at,
                         .cpu_cost = communicates ? call : launch,
                         .work = m.works.row_of(t),
                         .origin = graph::Origin::kScaled,
                         .event = communicates ? g.event[t] : EventId{}});
    }
  }
  return {};
}

std::string already_there(const Model& m, const Parameters& parameters) {
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  if (!has->recomputes) return {};
  const std::vector<std::string> wanted = parameters.list("layers");
  const std::vector<BlockOfLayers> blocks = repeated_runs(m.graph);
  const bool left = std::any_of(blocks.begin(), blocks.end(), [&](const BlockOfLayers& b) {
    const bool asked = wanted.empty() || std::any_of(wanted.begin(), wanted.end(),
                                                     [&](const std::string& w) { return glob_match(w, b.name); });
    return asked && !b.name.empty() && !has->recomputed.empty() && !recomputes(*has, b.name);
  });
  return left ? "" : "the step already runs its blocks again in the backward pass (activation checkpointing)";
}

void write_code(const ScriptPart& p, ScriptPlaces& to) {
  const std::string how = p.parameters.text("reentrant") == "1" ? ", reentrant=True" : "";
  if (const std::vector<std::string> layers = p.parameters.list("layers"); !layers.empty()) {
    each_named(p, layers, fmt::format("checkpointed(module{})", how), to.model, to);
  } else {
    to.model.push_back(
        fmt::format("    for block in repeated_blocks(model):{}\n        checkpointed(block{})", p.gain, how));
  }
}

std::string code_for(const Parameters& p, bool /*training*/) {
  const bool reentrant = p.text("reentrant") == "1";
  if (p.text("mode") == "alternate")
    return "activation_checkpoint.mode = \"selective\", selective_ac_option = \"op\"  # torchtitan";
  if (p.text("mode") == "selective") {
    return "checkpoint(block, x, use_reentrant=False, context_fn=partial(create_selective_checkpoint_contexts, [mm, "
           "bmm, "
           "scaled_dot_product_attention]))";
  }
  const std::string layers = on_layers(p);
  if (!layers.empty()) {
    return with_note(
        fmt::format("torch.utils.checkpoint.checkpoint(block, x, use_reentrant={})", reentrant ? "True" : "False"),
        layers);
  }
  if (!reentrant) return {};
  return "model.gradient_checkpointing_enable({'use_reentrant': True})  # or torch.utils.checkpoint.checkpoint(block, "
         "x, "
         "use_reentrant=True)";
}

const Registered kRegistered(
    {.name = "checkpoint",
     .about = "activations of blocks are recomputed in the backward pass instead of kept",
     .parameters =
         {{"layers", "globs of block names, separated by |; every repeated block when not given"},
          {.name = "blocks",
           .about = "how many of them, the first ones; all when not given",
           .type = ParameterType::kNumber,
           .check = whole_number<>},
          {"mode",
           "selective: results of products and attention are kept, all else runs again; alternate: every second "
           "product runs again, too",
           "full",
           {"full", "selective", "alternate"}},
          {"reentrant", "1: use_reentrant=True", "0", {"0", "1"}}},
     .assumes = "each block keeps its input only; its forward runs again until all that backward needs is there "
                "(use_reentrant=True: all of it)",
     .source = "Chen et al. 2016; torch.utils.checkpoint; Echo (Daydream's table)",
     .needs = {Need::kBackward},
     .changes = Changes::kRecomputation,
     .parts = {.memory = Part::kModelled},
     .fits = Fits::kTraining,
     .code = "model.gradient_checkpointing_enable()  # or torch.utils.checkpoint.checkpoint(block, x)",
     .code_for = code_for,
     .effort = Effort::kFewLines,
     .stage = Stage::kMemory,
     .advise = {"checkpoint"},
     .validated = true,
     .apply = apply_checkpoint,
     .already = already_there,
     .whole_program = "which tensors a compiled program keeps is not in its trace; jax.checkpoint changes it, and the "
                      "compiler the rest",
     .write_code = write_code,
     .unvalidated = {"blocks", "mode=selective", "mode=alternate"}});

}  // namespace
}  // namespace foretrace::whatif
