#pragma once
// The gradients of a recorded data-parallel job compressed before they are reduced: the recorded all-reduces carry what the method
// sends, between kernels of the method's hook.

#include "foretrace/base/result.hpp"
#include "foretrace/whatif/draft.hpp"
#include "foretrace/whatif/model.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

/// One rank's part; the same on every rank. Declined where the method gathers: no recorded transfer shows how long that takes.
Status compress_reductions(Model& model, Draft& draft, const Parallelism& how);

}  // namespace foretrace::whatif
