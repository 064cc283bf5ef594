#pragma once
// Norms, sums, sorting, pooling and work by index on another GPU.

#include "hardware/transfer.hpp"

namespace foretrace::hardware {

/// What a kernel of the work takes on `to`, `part` of whose operation it is. Where memory bounds it, as any kernel that stays the same
/// (same_kernel_us); as far as steps and starts of blocks do, by the law that what-ifs use of it (measured_place).
double row_kernel_us(double measured_us, double part, const work::Work& work, const KernelShape& shape,
                     const Device& from, const Device& to, double from_gbs);

}  // namespace foretrace::hardware
