#include <algorithm>

#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/typical.hpp"
#include "whatif/parallel/in_step.hpp"

namespace foretrace::whatif {
namespace {

Status apply_alone(Model&, Draft&, const Parameters&) {
  return needs_a_job("one trace does not show which rank is late");
}

Result<JobPlan> apply_to_job(const JobModels& job, const Parameters&) {
  std::vector<std::uint32_t> peers = job.ties->peers;
  std::sort(peers.begin(), peers.end());
  if (std::adjacent_find(peers.begin(), peers.end()) == peers.end()) {
    return fail(ErrorCode::kDeclined, "no two ranks do the same work, so it is unknown which one is late");
  }
  const std::vector<std::uint32_t> gpu = typical_ranks(job, true), cpu = typical_ranks(job, false);
  bool any_slow = false;
  for (std::size_t slot = 0; slot < gpu.size(); ++slot) any_slow |= gpu[slot] != slot;
  return JobPlan{[&job, gpu, cpu, any_slow](std::size_t slot, Model& model, Draft& draft) -> Status {
    for (const bool on_gpu : {true, false}) {
      const std::uint32_t like = (on_gpu ? gpu : cpu)[slot];
      if (like == slot) continue;
      for (const auto& [task, cost] : costs_elsewhere(model.graph, job.ranks[like]->graph, on_gpu)) {
        if (cost != model.graph.cost[task]) draft.set(task, cost, model.graph.origin[task]);
      }
    }
    // Next to a slow rank on the same GPU, the others had more of its memory's bandwidth than they have among equals.
    const hardware::Parts parts = hardware::parts_of_gpu(job.ranks[gpu[slot]]->device);
    if (any_slow && parts.count > 1) share_memory(model, draft, parts);
    if (draft.changed() == 0) draft.note_change();  // it is the typical rank
    return {};
  }};
}

const Registered kRegistered({.name = "no-straggler",
                              .about = "every rank of a job computes as fast as the median one that does the same work",
                              .assumes = "what makes a rank slow (its GPU, CPU or input) can be removed",
                              .source = "dPRO; foretrace ranks",
                              .not_modelled = "slow links between ranks",
                              .changes = Changes::kCosts,
                              .code = "`foretrace ranks` names the rank that is late, and why",
                              .effort = Effort::kWork,
                              .stage = Stage::kRuntime,
                              .apply = apply_alone});
const RegisteredForJobs kOnJobs("no-straggler", apply_to_job);

}  // namespace
}  // namespace foretrace::whatif
