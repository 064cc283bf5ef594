#pragma once
// Composes the step of a plan from the parts of one GPU's step: stages, their schedule, messages between them, reductions, the
// update, and memory.

#include <vector>

#include "plan/groups.hpp"
#include "plan/parts.hpp"
#include "plan/plan.hpp"

namespace foretrace::plan {

struct Job {
  const Plan& plan;
  const Parts& parts;
  int layers = 1;  ///< of the whole model
  int microbatches = 1;
  double expert_share = 0;  ///< of a block's parameters, those of experts on this GPU
  double streaming = 1;     ///< bytes per ns that a kernel reaches which only reads and writes
  Ns launch = 0;            ///< CPU time of one small operation
  Ns gap = 0;               ///< between two kernels
  Ns call = 0;              ///< CPU time of a message to another stage or from it
  double slowest_host = 1;  ///< CPU time of the slowest process over that of the trace
  int sms = 0;              ///< of the GPU; 0: unknown
  double contention = 0;    ///< what kernels lose to a collective's traffic, in addition to the SMs it occupies
};

struct Composition {
  Ns step = 0, bubble = 0;
  Ns gpu_time = 0;  ///< kernels and copies of the GPU that has most
  Ns exposed_groups = 0, exposed_stages = 0, exposed_gradients = 0;
  double sigma = 0;  ///< of log time: how far the collectives may be off
  std::int64_t peak = 0;
  std::vector<PlanRank> ranks;
  std::vector<PlanAction> actions;
};

/// Declined where the model has fewer blocks than the plan has stages, or the schedule cannot be made.
Result<Composition> compose(const Job& job, Groups& groups, bool with_actions);

}  // namespace foretrace::plan
