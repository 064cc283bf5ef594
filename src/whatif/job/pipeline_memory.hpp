#pragma once
// Memory of one rank of a recorded pipeline whose passes run in another order. What a pass allocates and frees is recorded, so it is
// allocated and freed again in the new order: activations wait for their backward pass, outputs and gradients for the end.

#include <cstdint>
#include <vector>

#include "foretrace/memory/memory.hpp"
#include "simulate/pipeline_schedule.hpp"
#include "whatif/job/pipeline_passes.hpp"

namespace foretrace::whatif {

/// Of `rank`, whose micro-batches have the new size; that counts inside passes. `recorded`: its curve as it was, which counts outside
/// them, where the step has as many samples as before. `micro_batches`: of `actions`.
memory::Curve rescheduled_memory(const Model& rank, const memory::Curve& recorded, const PipelinePasses& passes,
                                 const std::vector<simulate::PipelineAction>& actions, std::uint32_t micro_batches);

}  // namespace foretrace::whatif
