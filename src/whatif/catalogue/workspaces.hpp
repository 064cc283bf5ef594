#pragma once
// Scratch memory of convolutions. A strict FP32 algorithm may take gigabytes (FFT); one on tensor cores takes room for the
// copies it brings into channels-last order, and none where tensors are in that order.

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Gives scratch blocks of convolutions whose work changed since `model.works` had `before` rows their new size.
void resize_workspaces(Model& model, std::size_t before);

}  // namespace foretrace::whatif
