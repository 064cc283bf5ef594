#pragma once
// The parts of a summary: what the trace itself shows, what its graph shows, what the graph's simulation shows.

#include "foretrace/analysis/replay.hpp"
#include "foretrace/analysis/summary.hpp"

namespace foretrace::analysis {

struct SummaryInput {
  const trace::Trace& trace;
  const trace::Step& step;
  const ReplayedStep* analysis = nullptr;  ///< null when no graph could be built
  bool own_events = true;                  ///< the graph's event ids speak of `trace`
};

/// Threads, GPUs and streams over the step's range; the device that worked most.
void summarise_lanes(const SummaryInput& input, SummaryReport& report);
/// The moment of the highest allocation on each device.
void summarise_memory(const SummaryInput& input, SummaryReport& report);
/// Phases, layers, operations, kernels.
void summarise_work(const SummaryInput& input, SummaryReport& report);
/// What the GPU tasks of a step multiply, each operation's FLOP with the first of its tasks.
struct TaskFlops {
  std::vector<FlopCount> of_task;  ///< by task of the graph; empty when the sizes are unknown
  std::string no_flops, no_peak;   ///< as in SummaryReport
  std::size_t gpus = 1;
};
TaskFlops task_flops(const SummaryInput& input, const std::vector<std::uint32_t>& gpu_tasks);
FlopCount& operator+=(FlopCount& sum, const FlopCount& more);

/// Samples and tokens of the step by the shapes of its operations; nothing where these leave a doubt.
std::optional<StepBatch> batch_of_step(const SummaryInput& input);

/// Breakdown, critical path, bounds, the step without the profiler.
SimulatedStep summarise_simulation(const trace::Trace& trace, const ReplayedStep& analysis, std::optional<Ns> measured,
                                   const host::CpuPrior& prior);

/// "(forward)": how work that belongs to no layer is listed.
std::string no_layer_name(graph::Phase phase);

}  // namespace foretrace::analysis
