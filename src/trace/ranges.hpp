#pragma once
// What ranges and operations on the CPU say by their names, whatever schema wrote them: steps, loading of data, autograd's
// nodes.

#include <string_view>

namespace foretrace::trace {

/// A range that marks a step, by the table src/trace/names/steps.csv: "ProfilerStep#4", "step[DECODE bs=32]".
bool is_step_range(std::string_view name);

/// The data loader gives a batch: "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__".
inline bool is_loader_range(std::string_view name) { return name.starts_with("enumerate(DataLoader)#"); }
/// … and waits for worker processes that make it.
inline bool is_worker_loader_range(std::string_view name) {
  return is_loader_range(name) && name.find("MultiProcessing") != std::string_view::npos;
}

/// A node of autograd's graph: "autograd::engine::evaluate_function: AddmmBackward0", and by the name of its class alone
/// ("AddmmBackward", "torch::autograd::AccumulateGrad"), which is all that traces before 2021 have.
bool is_autograd_node(std::string_view name);

}  // namespace foretrace::trace
