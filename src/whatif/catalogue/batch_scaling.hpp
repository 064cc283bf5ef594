#pragma once
// How GPU work grows with the batch, shared by `batch` and `accumulate`.

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Rescales forward, backward and data tasks of the draft to a batch x times as large. Returns how many tasks changed.
/// Memory that holds the batch's data grows with it; parameters, states and gradients do not.
std::size_t scale_batch(Model& model, Draft& draft, double x);

}  // namespace foretrace::whatif
