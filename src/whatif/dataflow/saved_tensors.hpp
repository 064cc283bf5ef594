#pragma once
// What autograd keeps of the forward pass for the backward pass: which operation saves which of its inputs and outputs, from
// PyTorch's derivative formulas and the shapes in the trace. What saved-tensor hooks see, one by one: a tensor saved by two
// operations is saved twice.

#include <functional>
#include <vector>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

struct SavedTensor {
  std::uint32_t op = 0;        ///< event of the operation that saves it
  std::uint32_t node = 0;      ///< event of its node in the backward pass
  std::uint32_t forward = 0;   ///< GPU task: the operation's first, or its last for what it computes
  std::uint32_t backward = 0;  ///< the node's first GPU task
  std::int64_t elements = 0;
  std::int64_t bytes = 0;
  bool computed = false;   ///< a result: saved once it is there; an input is saved before the operation runs
  bool parameter = false;  ///< a weight or a running statistic
  bool floating = true;    ///< not indices or masks
  bool contiguous = true;  ///< elements are in memory as they are counted; else a copy puts them in order first
};

/// In the order in which they are saved. Operations without a node in the backward pass save nothing, and layers that run again
/// there nothing that hooks around the forward pass see.
std::vector<SavedTensor> saved_tensors(const Model& model, const Draft& draft);

/// The memory curve when the activations among `saved` leave the GPU's memory after their use in the forward pass, `kept` of
/// their bytes stay (0: none), and they are there again, whole, while their node runs. `made`: where not everything that is saved leaves, whether
/// memory that an operation (its event) allocated holds what leaves.
void release_saved(Model& model, const std::vector<SavedTensor>& saved, double kept,
                   const std::function<bool(std::uint32_t)>& made = {});

/// Why it is unknown what is saved: a what-if before this one changed sizes or what is computed again, or the step computes
/// blocks again and does not say which. Empty when it can.
std::string why_saved_unknown(const Model& model);

}  // namespace foretrace::whatif
