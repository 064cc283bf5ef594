#pragma once
// A schedule with times: when each action of each rank of a pipeline runs.
//
//   PipelineRun run = run_pipeline(schedule, costs);     run.end;  run.start[rank][action];  run.busy[rank]
//
// A rank runs its actions in order, each as soon as its input has arrived. Its CPU launches them in the same order without
// waiting for the GPU, so an action ends no earlier than the CPU has launched it.

#include <vector>

#include "foretrace/base/types.hpp"
#include "simulate/pipeline_schedule.hpp"

namespace foretrace::simulate {

/// Of one stage and micro-batch. A backward in two parts is `backward - weight`, then `weight`.
struct StageCost {
  Ns forward = 0;
  Ns backward = 0;
  Ns weight = 0;
  Ns forward_cpu = 0;
  Ns backward_cpu = 0;
  Ns weight_cpu = 0;
  Ns once = 0;  ///< more, in the forward of its first micro-batch
  Ns once_cpu = 0;
};

struct PipelineCosts {
  std::vector<StageCost> stages;  ///< by stage
  std::vector<Ns> transfer;       ///< from stage i to i + 1, and back: one entry fewer than stages
  bool sender_waits = false;      ///< a rank does nothing else while it sends
  Ns saved_by_pairing = 0;        ///< time that an overlapping pair of forward and backward saves
};

struct PipelineRun {
  std::vector<std::vector<Ns>> start;  ///< per rank and action
  std::vector<std::vector<Ns>> finish;
  std::vector<Ns> busy;      ///< per rank: sum of its actions
  std::vector<Ns> finished;  ///< per rank: end of its last action
  Ns end = 0;
  /// How long the busiest rank is not busy.
  [[nodiscard]] Ns bubble() const;
};

PipelineRun run_pipeline(const PipelineSchedule& schedule, const PipelineCosts& costs);

}  // namespace foretrace::simulate
