#pragma once
// Tensors kept for the backward pass go to the host's memory and come back.

#include <vector>

#include "whatif/dataflow/saved_tensors.hpp"

namespace foretrace::whatif {

/// As torch's save_on_cpu does it: the forward pass waits for each copy, the backward pass queues them where they are needed.
void copy_in_order(Model& model, Draft& draft, const std::vector<SavedTensor>& saved);

/// As vDNN does it: copies on streams of their own; the forward pass runs at most one operation ahead of them, so that the
/// memory is free in time, and they come back a few tensors before they are needed.
void copy_beside(Model& model, Draft& draft, const std::vector<SavedTensor>& saved);

}  // namespace foretrace::whatif
