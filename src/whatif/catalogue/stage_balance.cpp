#include <algorithm>
#include <map>

#include "whatif/catalogue/also_written.hpp"
#include "whatif/catalogue/catalogue.hpp"
#include "whatif/job/job_models.hpp"

namespace foretrace::whatif {
namespace {

Status apply_alone(Model&, Draft&, const Parameters&) {
  return needs_a_job("one trace holds one stage, and stages are balanced against each other");
}

bool moves_along(const Graph& g, std::uint32_t t) {
  return (g.phase[t] == Phase::kForward || g.phase[t] == Phase::kBackward) && g.kind[t] != TaskKind::kCollective;
}

// How long the layers of a rank keep what limits it busy: its GPU, or the CPU that feeds it.
double limited_by(const Graph& g) {
  double gpu = 0, cpu = 0;
  for (std::uint32_t t = 0; t < g.size(); ++t) {
    if (moves_along(g, t)) (graph::is_gpu(g.kind[t]) ? gpu : cpu) += static_cast<double>(g.cost[t]);
  }
  return std::max(gpu, cpu);
}

// Layers that go to another stage take their kernels and their CPU work with them.
Result<JobPlan> apply_to_job(const JobModels& job, const Parameters&) {
  const std::vector<std::uint32_t>& stage = job.ties->stage;
  struct Stage {
    double time = 0;
    int ranks = 0;
  };
  std::map<std::uint32_t, Stage> stages;
  for (std::size_t s = 0; s < job.ranks.size(); ++s) {
    Stage& mine = stages[stage[s]];
    mine.time += limited_by(job.ranks[s]->graph);
    ++mine.ranks;
  }
  if (stages.size() < 2) return fail(ErrorCode::kDeclined, "the job is no pipeline: all ranks hold the same layers");
  double mean = 0;
  for (auto& [number, one] : stages) {
    one.time /= one.ranks;
    mean += one.time / static_cast<double>(stages.size());
  }
  std::map<std::uint32_t, double> factor;
  for (const auto& [number, one] : stages) {
    if (one.time <= 0) return fail(ErrorCode::kDeclined, "a stage without a forward or backward pass");
    factor[number] = mean / one.time;
  }
  return JobPlan{[&stage, factor](std::size_t slot, Model& model, Draft& draft) -> Status {
    Selection moved;
    for (std::uint32_t t = 0; t < model.graph.size(); ++t) {
      if (moves_along(model.graph, t)) moved.push_back(t);
    }
    draft.scale(moved, factor.at(stage[slot]));
    return {};
  }};
}

const Registered kRegistered(
    {.name = "stage-balance",
     .about = "every stage of a pipeline computes as long as the others",
     .assumes = "the layers divide evenly: stages exchange fractions of a layer",
     .source = "PipeDream",
     .not_modelled = "the memory that goes with layers to another stage; their part of the update",
     .changes = Changes::kCosts,
     .parts = {.memory = Part::kNotModelled},
     .code = "another split of the layers over the stages",
     .effort = Effort::kWork,
     .stage = Stage::kRuntime,
     .apply = apply_alone});
const RegisteredForJobs kOnJobs("stage-balance", apply_to_job);
const AlsoWritten kInPipelines("pp:balance", "stage-balance");

}  // namespace
}  // namespace foretrace::whatif
