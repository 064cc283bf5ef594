#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/dataflow/blocks.hpp"
#include "whatif/dataflow/dataflow.hpp"
#include "whatif/dataflow/layer_regions.hpp"
#include "whatif/model/script.hpp"
#include "whatif/model/step_facts.hpp"

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

// By the time memory was asked for: the block whose kernels were being launched; blocks.size() in front of all of them. A compiled pass is
// one operation, which asks for each buffer right before the kernel that fills it.
std::size_t block_at(const Model& m, const std::vector<BlockOfLayers>& blocks, Ns asked) {
  const Graph& g = m.graph;
  std::size_t found = blocks.size();
  for (std::size_t b = 0; b < blocks.size(); ++b) {
    const EventId call = g.event[g.launch[blocks[b].forward.front()].index()];
    if (call.valid() && m.trace->events.start[call.index()] <= asked) found = b;
  }
  // Behind the last one's kernels lies the head of the network.
  if (found + 1 == blocks.size()) {
    const EventId last = g.event[g.launch[blocks.back().forward.back()].index()];
    if (last.valid() && asked > m.trace->end(last.index())) return blocks.size();
  }
  return found;
}

// Activations of a block live until its forward is over, and again while its backward runs; its output stays, for the
// next block to start from. Says whether any activation is known to be a block's.
bool shorten_lives(Model& m, const std::vector<BlockOfLayers>& blocks) {
  memory::Curve& c = *m.memory;
  // Of each run of a block what it allocated, in order. A block that runs several times begins again with its first layer.
  std::map<std::string, std::vector<std::vector<std::size_t>>, std::less<>> held;
  std::map<std::string, std::size_t, std::less<>> runs;
  for (const BlockOfLayers& block : blocks) ++runs[block.name];
  std::map<std::string, std::string, std::less<>> first_layer;
  const bool unnamed = blocks.front().name.empty();
  if (unnamed) held[""].resize(blocks.size());
  std::string current;
  std::string last_layer;
  for (std::size_t i = 0; i < c.blocks.size(); ++i) {
    const memory::Block& b = c.blocks[i];
    if (b.stage != memory::Stage::kForward || b.allocated == 0) continue;
    if (unnamed) {
      const std::size_t at = b.op != kNone ? block_at(m, blocks, b.at) : blocks.size();
      if (b.kind == memory::Kind::kActivation && at < blocks.size()) held[""][at].push_back(i);
      continue;
    }
    if (b.layer != kNone) {
      std::string_view name = m.trace->name(b.layer);
      name.remove_prefix(6);
      current = block_of(name.substr(0, name.find('|')));
      const std::string& begins = first_layer.try_emplace(current, name).first->second;
      const bool again = begins == name && last_layer != name;
      std::vector<std::vector<std::size_t>>& mine = held[current];
      if (mine.empty() || (again && runs[current] > 1)) mine.emplace_back();
      last_layer = name;
    }
    if (b.kind == memory::Kind::kActivation && !current.empty()) held[current].back().push_back(i);
  }
  std::vector<memory::Block> second;
  std::map<std::string, std::size_t, std::less<>> done;
  for (const BlockOfLayers& block : blocks) {
    const std::size_t run = done[block.name]++;
    const auto it = held.find(block.name);
    if (it == held.end() || run >= it->second.size() || it->second[run].size() < 2) continue;
    // Its result is the last allocation, but for statistics of a norm, which are a row's width smaller.
    const std::vector<std::size_t>& mine = it->second[run];
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
      memory::Block b;
      b.bytes = moment;
      b.allocated = backward_begin - 1;
      b.freed = backward_begin;
      b.stage = memory::Stage::kBackward;
      b.op = c.blocks[result].op;
      second.push_back(b);
    }
    for (const std::size_t i : mine) {
      if (i == result) continue;
      memory::Block again = c.blocks[i];
      again.allocated = backward_begin - 1;
      again.kind = memory::Kind::kTemporary;
      c.blocks[i].freed = forward_end;
      c.blocks[i].kind = memory::Kind::kTemporary;
      second.push_back(again);
    }
  }
  if (second.empty()) return false;
  c.blocks.insert(c.blocks.end(), second.begin(), second.end());
  std::stable_sort(c.blocks.begin(), c.blocks.end(),
                   [](const memory::Block& a, const memory::Block& b) { return a.allocated < b.allocated; });
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
  if (wanted.empty()) drop_what_stands_beside_stages(blocks);
  const std::shared_ptr<const StepFacts> has = step_facts(m);
  std::erase_if(blocks, [&](const BlockOfLayers& b) { return !b.name.empty() && recomputes(*has, b.name); });
  if (blocks.empty()) {
    return fail(ErrorCode::kDeclined, "no block of layers repeats in this step");
  }
  if (blocks.front().name.empty()) {
    if (has->in_graphs > 0)
      return fail(ErrorCode::kDeclined, "the trace names no layers, and the step runs as a CUDA graph");
    m.not_modelled.push_back(
        fmt::format("the trace names no layers: {} blocks are taken for what repeats in its kernels", blocks.size()));
  }
  if (m.memory && !shorten_lives(m, blocks)) {
    m.not_modelled.emplace_back(
        "memory: no activation is known to be a block's, so the peak is that of the step as it is");
  }
  const std::shared_ptr<const Dataflow> shared = shared_flow(m);
  const Dataflow& flow = *shared;
  const Ns launch = m.launches.cpu_per_launch[static_cast<std::size_t>(host::CpuPhase::kForward)];
  const bool reentrant = parameters.text("reentrant") == "1";
  // A compiler writes the second forward into the backward pass: no hooks, no contexts.
  const double share = has->compiled ? 0 : reentrant ? m.host.reentrant_share : 1;
  const Ns around_forward = m.cpu_time(share * m.host.checkpoint_forward_us, host::CpuPhase::kForward);
  const Ns around_backward = m.cpu_time(share * m.host.checkpoint_backward_us, host::CpuPhase::kBackward);
  for (const BlockOfLayers& b : blocks) {
    if (b.first_backward == kNone || !g.launch[b.first_backward].valid()) continue;
    if (!b.forward.empty() && g.launch[b.forward.front()].valid()) {
      const std::uint32_t first = g.launch[b.forward.front()].value;
      draft.insert_cpu(first > g.lanes[g.lane[first]].begin ? first - 1 : first, "checkpoint", around_forward,
                       Phase::kForward);
    }
    // The block's forward again, in front of its first backward kernel, launched by the thread that runs backward.
    const std::uint32_t call = g.launch[b.first_backward].value;
    std::uint32_t after_cpu = call > g.lanes[g.lane[call]].begin ? call - 1 : call;
    std::uint32_t after_gpu = b.first_backward;
    if (after_gpu > g.lanes[g.lane[after_gpu]].begin) --after_gpu;
    after_cpu = draft.insert_cpu(after_cpu, "checkpoint", around_backward, Phase::kBackward);
    // The reentrant kind runs the whole block again; the other stops where backward has all it needs, which operations tell that
    // a compiler has left.
    const bool whole = reentrant || has->compiled;
    for (const std::uint32_t t : whole ? b.forward : recomputed(g, flow, b.forward)) {
      after_gpu = draft.insert({.name = std::string(g.task_name(t)),
                                .cost = g.cost[t],
                                .phase = Phase::kBackward,
                                .layer = g.layer[t],
                                .kind = g.kind[t],
                                .after_gpu = after_gpu,
                                .after_cpu = after_cpu,
                                .cpu_cost = launch,
                                .work = m.works.row_of(t),
                                .origin = graph::Origin::kScaled});
      after_cpu = after_gpu - 1;
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

WhatIf checkpoint_whatif() {
  return {.name = "checkpoint",
          .about = "activations of blocks are recomputed in the backward pass instead of kept",
          .parameters = {{"layers", "globs of block names, separated by |; every repeated block when not given"},
                         {"reentrant", "1: use_reentrant=True", "0", {"0", "1"}}},
          .assumes =
              "each block keeps its input only; its forward runs again until all that backward needs is there "
              "(use_reentrant=True: all of it)",
          .source = "Chen et al. 2016; torch.utils.checkpoint; Echo (Daydream's table)",
          .not_modelled = {},
          .needs = {Need::kBackward},
          .changes = Changes::kRecomputation,
          .parts = {.memory = Part::kModelled},
          .code = "model.gradient_checkpointing_enable()  # or torch.utils.checkpoint.checkpoint(block, x)",
          .effort = Effort::kFewLines,
          .stage = Stage::kMemory,
          .advise = {"checkpoint"},
          .validated = true,
          .apply = apply_checkpoint,
          .already = already_there,
          .whole_program =
              "which tensors a compiled program keeps is not in its trace; jax.checkpoint changes it, and the "
              "compiler the rest",
          .write_code = write_code};
}

const Registered kRegistered(checkpoint_whatif);

}  // namespace

}  // namespace foretrace::whatif
