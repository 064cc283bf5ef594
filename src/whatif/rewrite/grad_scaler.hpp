#pragma once
// torch.amp.GradScaler: gradients are unscaled and checked, and the CPU reads the result before it may update.

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// `last_backward`: the GPU task behind which gradients are complete; kNone when there is none.
void insert_grad_scaler(Model& model, Draft& draft, std::uint32_t last_backward);

}  // namespace foretrace::whatif
