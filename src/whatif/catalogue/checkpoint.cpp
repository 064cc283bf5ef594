#include <algorithm>
#include <map>

#include "whatif/catalogue/blocks.hpp"
#include "whatif/catalogue/catalogue.hpp"

namespace foretrace::whatif {

namespace {

// Activations of a block live until its forward is over, and again while its backward runs; its output stays, for the
// next block to start from.
void shorten_lives(Model& m, const std::vector<BlockOfLayers>& blocks) {
  memory::Curve& c = *m.memory;
  std::map<std::string, std::vector<std::size_t>, std::less<>> held;  // block -> indices, in order of allocation
  std::string current;
  for (std::size_t i = 0; i < c.blocks.size(); ++i) {
    const memory::Block& b = c.blocks[i];
    if (b.stage != memory::Stage::kForward || b.allocated == 0) continue;
    if (b.layer != UINT32_MAX) {
      std::string_view name = m.trace->name(b.layer);
      name.remove_prefix(6);
      current = block_of(name.substr(0, name.find('|')));
    }
    if (b.kind == memory::Kind::kActivation && !current.empty()) held[current].push_back(i);
  }
  for (const BlockOfLayers& block : blocks) {
    const auto it = held.find(block.name);
    if (it == held.end() || it->second.size() < 2) continue;
    const std::uint32_t forward_end = c.blocks[it->second.back()].allocated;
    std::uint32_t backward_begin = UINT32_MAX;
    for (const std::size_t i : it->second) backward_begin = std::min(backward_begin, c.blocks[i].freed);
    if (backward_begin == UINT32_MAX || backward_begin <= forward_end) continue;
    // The output is what the last layer made, not what it keeps for itself beside it (a norm's mean and deviation).
    std::size_t output = it->second.back();
    const std::uint32_t last_layer = c.blocks[output].layer;
    for (const std::size_t i : it->second) {
      if (last_layer != UINT32_MAX && c.blocks[i].layer == last_layer && c.blocks[i].bytes > c.blocks[output].bytes) {
        output = i;
      }
    }
    for (const std::size_t i : it->second) {
      if (i == output) continue;
      memory::Block again = c.blocks[i];
      again.allocated = backward_begin - 1;
      again.kind = memory::Kind::kTemporary;
      c.blocks[i].freed = forward_end;
      c.blocks[i].kind = memory::Kind::kTemporary;
      c.blocks.push_back(again);
    }
  }
}

Status apply_checkpoint(Model& m, Draft& draft, const Parameters& parameters) {
  const Graph& g = m.graph;
  std::vector<BlockOfLayers> blocks = repeated_blocks(g);
  const std::vector<std::string> wanted = parameters.list("layers");
  if (!wanted.empty()) {
    std::erase_if(blocks, [&](const BlockOfLayers& b) {
      return std::none_of(wanted.begin(), wanted.end(), [&](const std::string& w) { return glob_match(w, b.name); });
    });
  }
  if (blocks.empty()) {
    return fail(ErrorCode::kDeclined, wanted.empty() ? "no block of layers repeats: name some with layers=…"
                                                     : "no block of layers has such a name");
  }
  if (m.memory) shorten_lives(m, blocks);
  const Ns launch = m.launches.cpu_per_launch[static_cast<std::size_t>(CpuPhase::kForward)];
  for (const BlockOfLayers& b : blocks) {
    if (b.first_backward == Graph::kNoWork || !g.launch[b.first_backward].valid()) continue;
    // The block's forward again, in front of its first backward kernel, launched by the thread that runs backward.
    const std::uint32_t call = g.launch[b.first_backward].value;
    std::uint32_t after_cpu = call > g.lanes[g.lane[call]].begin ? call - 1 : call;
    std::uint32_t after_gpu = b.first_backward;
    if (after_gpu > g.lanes[g.lane[after_gpu]].begin) --after_gpu;
    for (const std::uint32_t t : b.forward) {
      after_gpu = draft.insert({.name = std::string(g.task_name(t)),
                                .cost = g.cost[t],
                                .phase = Phase::kBackward,
                                .layer = g.layer[t],
                                .kind = g.kind[t],
                                .after_gpu = after_gpu,
                                .after_cpu = after_cpu,
                                .cpu_cost = launch,
                                .work = g.work[t],
                                .origin = graph::Origin::kScaled});
      after_cpu = after_gpu - 1;
    }
  }
  return {};
}

}  // namespace

WhatIf checkpoint_whatif() {
  return {.name = "checkpoint",
          .about = "activations of blocks are recomputed in the backward pass instead of kept",
          .parameters = {{"layers", "globs of block names, separated by |; every repeated block when not given"}},
          .assumes = "each block keeps its input only; its whole forward runs again",
          .source = "Chen et al. 2016; torch.utils.checkpoint; Echo (Daydream's table)",
          .not_modelled = "saving and restoring of random-number states",
          .needs = "layer ranges",
          .code = "model.gradient_checkpointing_enable()  # or torch.utils.checkpoint.checkpoint(block, x)",
          .effort = Effort::kFewLines,
          .stage = Stage::kMemory,
          .advise = {"checkpoint"},
          .validated = true,
          .apply = apply_checkpoint};
}

}  // namespace foretrace::whatif
