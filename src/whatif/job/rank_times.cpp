// A joined job simulated: how long each rank waits for others, and for which.

#include <algorithm>

#include "foretrace/memory/memory.hpp"
#include "whatif/job/job_models.hpp"
#include "whatif/model/simulate_model.hpp"

namespace foretrace::whatif {

std::vector<RankTime> rank_times(const Model& job) {
  const JobModels& all = *job.job;
  std::vector<RankTime> out(all.ranks.size());
  ModelRuns runs(job);
  const simulate::SteadyRuns::Run run = runs.run();
  const graph::Graph& once = job.graph;
  // In the last copy the ranks have settled.
  const auto place = [&](std::uint32_t t) {
    const graph::GraphLane& lane = once.lanes[once.lane[t]];
    return lane.begin * run.copies + (run.copies - 1) * (lane.end - lane.begin) + (t - lane.begin);
  };
  std::vector<bool> counted(once.size(), false);
  for (const std::vector<Joint>& collective : all.collectives) {
    std::uint32_t last = kNone;
    Ns latest = 0, longest = 0;
    for (const Joint& j : collective) {
      if (counted[j.arrive]) continue;  // a kernel with several messages
      counted[j.arrive] = true;
      const Ns arrived = run.timeline.start[place(j.arrive)];
      const Ns met = run.timeline.start[place(j.transfer)];
      out[j.slot].wait += std::max<Ns>(0, met - arrived);
      out[j.slot].transfer += std::max<Ns>(0, run.timeline.end[place(j.tail)] - met);
      longest = std::max(longest, met - arrived);
      if (last == kNone || arrived > latest) last = j.slot, latest = arrived;
    }
    if (last != kNone && longest > 0) ++out[last].waited_for;
  }
  for (std::size_t s = 0; s < out.size(); ++s) {
    const Model& rank = *all.ranks[s];
    out[s].rank = all.ties->numbers[s];
    if (rank.memory) out[s].peak_bytes = memory::peak(*rank.memory).bytes;
    for (std::size_t t = 0; t < rank.graph.size(); ++t) {
      if (graph::is_gpu(rank.graph.kind[t]) && rank.graph.kind[t] != graph::TaskKind::kCollective)
        out[s].gpu_time += rank.graph.cost[t];
    }
  }
  return out;
}

}  // namespace foretrace::whatif
