#pragma once
// Merges convolutions that read the same tensor into one with the channels of all: first layers of parallel branches.

#include <cstddef>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Joins them, with the batch norms and activations behind each, forward and backward; the parts of the result are views, which further
/// convolutions copy. `enlarge`: also convolutions whose kernels differ in size, the smaller ones enlarged with zeros. Returns how many groups
/// became one; tasks that are no longer needed are added to `gone`.
std::size_t join_convolutions(Model& model, Draft& draft, bool enlarge, Selection& gone);

}  // namespace foretrace::whatif
