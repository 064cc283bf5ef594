#pragma once
// Norms, sums, sorting, pooling and work by index on another GPU.

#include "hardware/transfer.hpp"

namespace foretrace::hardware {

/// What a kernel of the work takes on `to`, `part` of whose operation it is. Where memory bounds it, as any kernel that stays the same
/// (same_kernel_us); as far as dependent steps and starts of blocks do, by the law of its kind (kernel_features).
double row_kernel_us(double measured_us, double part, const work::Work& work, const KernelShape& shape,
                     const Device& from, const Device& to, const TransferContext& context);

}  // namespace foretrace::hardware
