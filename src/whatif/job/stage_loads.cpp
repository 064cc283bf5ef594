#include "whatif/job/stage_loads.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "whatif/dataflow/blocks.hpp"
#include "whatif/job/pipeline_passes.hpp"

namespace foretrace::whatif {

namespace {

// Kernels of the first micro-batch's forward pass, in order of launch.
struct ForwardPass {
  std::vector<std::string_view> names;
  std::vector<double> costs;
};

ForwardPass first_forward(const Graph& g, const std::vector<MessageEnd>& ends) {
  ForwardPass out;
  std::vector<std::uint32_t> events;
  for (const MessageEnd& e : ends) events.push_back(e.event);
  const Result<PipelinePasses> found = find_passes(g, events);
  if (!found) return out;
  const auto first =
      std::find_if(found->passes.begin(), found->passes.end(), [](const Pass& p) { return !p.backward; });
  if (first == found->passes.end()) return out;
  Selection kernels;
  for (const std::uint32_t t : first->tasks) {
    if (graph::is_gpu(g.kind[t]) && g.launch[t].valid()) kernels.push_back(t);
  }
  std::sort(kernels.begin(), kernels.end(),
            [&](std::uint32_t a, std::uint32_t b) { return g.launch[a].value < g.launch[b].value; });
  for (const std::uint32_t t : kernels) {
    out.names.push_back(g.task_name(t));
    out.costs.push_back(static_cast<double>(g.cost[t]));
  }
  return out;
}

// A block, by its kernels: where the runs of one pass begin is arbitrary, but not what they consist of.
struct Block {
  std::vector<std::string_view> once;  // names of kernels that a block has one of
  double of_time = 0, of_kernels = 0;  // its share in the pass it was found in
};

std::optional<Block> block_in(const ForwardPass& pass) {
  std::map<std::string_view, std::uint32_t> ids;
  std::vector<std::uint32_t> sequence;
  for (const std::string_view name : pass.names)
    sequence.push_back(ids.try_emplace(name, static_cast<std::uint32_t>(ids.size())).first->second);
  const Repeats repeats = find_repeats(sequence);
  if (repeats.times == 0) return {};
  std::map<std::string_view, int> count;
  for (std::size_t i = 0; i < repeats.length; ++i) ++count[pass.names[repeats.begin + i]];
  Block block;
  for (const auto& [name, n] : count) {
    if (n == 1) block.once.push_back(name);
  }
  if (block.once.empty()) return {};
  double all = 0, inside = 0;
  for (std::size_t i = 0; i < pass.costs.size(); ++i) {
    all += pass.costs[i];
    if (i >= repeats.begin && i < repeats.begin + repeats.length * repeats.times) inside += pass.costs[i];
  }
  const auto times = static_cast<double>(repeats.times);
  block.of_time = all > 0 ? inside / all / times : 0;
  block.of_kernels = static_cast<double>(repeats.length) / static_cast<double>(pass.names.size());
  return block;
}

// The middle count of those kernels: embedding and head may have some of them too.
std::size_t blocks_in(const ForwardPass& pass, const Block& block) {
  std::vector<std::ptrdiff_t> counts;
  for (const std::string_view name : block.once)
    counts.push_back(std::count(pass.names.begin(), pass.names.end(), name));
  std::nth_element(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(counts.size() / 2), counts.end());
  return static_cast<std::size_t>(counts[counts.size() / 2]);
}

struct Busy {
  double gpu = 0, cpu = 0;
};

Busy busy(const Graph& g) {
  Busy out;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (moves_with_layers(g, t)) (graph::is_gpu(g.kind[t]) ? out.gpu : out.cpu) += static_cast<double>(g.cost[t]);
  }
  return out;
}

}  // namespace

bool moves_with_layers(const Graph& g, std::uint32_t t) {
  return (g.phase[t] == Phase::kForward || g.phase[t] == Phase::kBackward) && g.kind[t] != TaskKind::kCollective;
}

std::vector<StageLoad> stage_loads(const JobModels& job) {
  const std::vector<std::vector<MessageEnd>> ends = message_ends(*job.ties);
  std::map<std::uint32_t, std::vector<std::size_t>> slots;
  for (std::size_t s = 0; s < job.ranks.size(); ++s) slots[job.ties->stage[s]].push_back(s);
  if (slots.size() < 2) return {};

  std::vector<ForwardPass> passes;  // by stage, of its first rank
  for (const auto& [stage, mine] : slots)
    passes.push_back(first_forward(job.ranks[mine.front()]->graph, ends[mine.front()]));
  // The block is looked for where most of a pass is blocks.
  std::optional<Block> block;
  std::size_t found_in = 0;
  for (std::size_t i = 0; i < passes.size(); ++i) {
    std::optional<Block> here = block_in(passes[i]);
    if (!here || (block && blocks_in(passes[found_in], *block) >= blocks_in(passes[i], *here))) continue;
    block = std::move(here);
    found_in = i;
  }

  std::vector<StageLoad> out;
  Busy one;  // block
  std::vector<Busy> all;
  for (const auto& [stage, mine] : slots) {
    Busy mean;
    for (const std::size_t s : mine) {
      const Busy b = busy(job.ranks[s]->graph);
      mean.gpu += b.gpu / static_cast<double>(mine.size());
      mean.cpu += b.cpu / static_cast<double>(mine.size());
    }
    // The backward pass divides among layers as the forward pass does.
    if (block && all.size() == found_in) one = {mean.gpu * block->of_time, mean.cpu * block->of_kernels};
    all.push_back(mean);
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool by_gpu = all[i].gpu >= all[i].cpu;
    StageLoad load{.time = std::max(all[i].gpu, all[i].cpu)};
    if (block) {
      load.blocks = blocks_in(passes[i], *block);
      load.block = by_gpu ? one.gpu : one.cpu;
    }
    out.push_back(load);
  }
  return out;
}

}  // namespace foretrace::whatif
