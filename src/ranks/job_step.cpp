// The step of a job, as its ranks measure it.

#include "ranks/job_graph.hpp"

namespace foretrace::ranks {

Ns traced_step(const JobGraph& job) {
  Ns sum = 0;
  for (const RankPart& part : job.ranks) sum += part.step_end - part.step_start;
  return job.ranks.empty() ? 0 : sum / static_cast<Ns>(job.ranks.size());
}

Ns simulated_step(const JobGraph& job, const simulate::Timeline& timeline) {
  Ns sum = 0;
  for (const RankPart& part : job.ranks) sum += timeline.end[part.last.index()] - timeline.end[part.begin.index()];
  return job.ranks.empty() ? 0 : sum / static_cast<Ns>(job.ranks.size());
}

}  // namespace foretrace::ranks
