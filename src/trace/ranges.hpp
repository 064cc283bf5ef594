#pragma once
// What the names of CPU ranges and operations mean, in every schema: steps, loading of data, autograd's
// nodes.

#include <cstdint>
#include <string_view>

namespace foretrace::trace {

/// A range that marks a step, by the table src/trace/names/steps.csv: "ProfilerStep#4", "step[DECODE bs=32]".
bool is_step_range(std::string_view name);

/// How the main thread gets its next batch in a range, by the table src/trace/names/loaders.csv.
enum class LoaderRange : std::uint8_t {
  kNone,  ///< the range is about something else
  kLoads,  ///< the main thread makes the batch: "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", "load_batch"
  kWaitsForWorkers,  ///< other processes make it: "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"
  kQueue,            ///< a wait for another thread or process: counts where nothing is launched inside
};
LoaderRange loader_range(std::string_view name);
/// The range gives a batch, whoever made it.
inline bool is_loader_range(std::string_view name) {
  const LoaderRange role = loader_range(name);
  return role == LoaderRange::kLoads || role == LoaderRange::kWaitsForWorkers;
}

/// A node of autograd's graph: "autograd::engine::evaluate_function: AddmmBackward0", and by the name of its class alone
/// ("AddmmBackward", "torch::autograd::AccumulateGrad"), which is all that traces before 2021 have.
bool is_autograd_node(std::string_view name);

}  // namespace foretrace::trace
