#pragma once
// A plan as the settings of a trainer: what torchtitan, Megatron-LM, DeepSpeed and accelerate read.

#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.hpp"

namespace foretrace::report {

/// "torchtitan", "megatron", "deepspeed", "accelerate"
std::vector<std::string> trainers();
/// The file that trainer reads, or its arguments. Declined where it has no setting for a part of the plan.
Result<std::string> settings_for(std::string_view trainer, const plan::PlanPrediction& plan,
                                 const plan::Planner::Figures& figures);

}  // namespace foretrace::report
