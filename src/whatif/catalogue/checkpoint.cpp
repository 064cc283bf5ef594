#include <algorithm>
#include <map>

#include "whatif/catalogue/blocks.hpp"
#include "whatif/catalogue/catalogue.hpp"

namespace foretrace::whatif {

namespace {

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
  const Ns launch = m.launches.cpu_per_launch[static_cast<std::size_t>(CpuPhase::kForward)];
  for (const BlockOfLayers& b : blocks) {
    if (b.first_backward == Graph::kNoWork || !g.launch[b.first_backward].valid()) continue;
    // The block's forward again, in front of its first backward kernel, launched by the thread that runs backward.
    const std::uint32_t call = g.launch[b.first_backward].value;
    std::uint32_t after_cpu = call > g.lanes[g.lane[call]].begin ? call - 1 : call;
    std::uint32_t after_gpu = b.first_backward;
    if (after_gpu > g.lanes[g.lane[after_gpu]].begin) --after_gpu;
    for (const std::uint32_t t : b.forward) {
      after_gpu = draft.insert({.name = std::string(g.task_name(t)), .cost = g.cost[t], .phase = Phase::kBackward,
                                .layer = g.layer[t], .kind = g.kind[t], .after_gpu = after_gpu, .after_cpu = after_cpu,
                                .cpu_cost = launch, .work = g.work[t], .origin = graph::Origin::kScaled});
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
          .validated = true,
          .apply = apply_checkpoint};
}

}  // namespace foretrace::whatif
