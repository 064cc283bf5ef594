#pragma once
// A measured GPU task on another GPU. Kernels that stay the same (element-wise, norms, copies, optimizers) follow bandwidth,
// rates and waves; operations for which libraries pick another kernel on every GPU (products, convolutions, attention) follow
// the ratio of a model of the best kernel on both. Either way the measured time is the anchor, so that what no model knows of
// the kernel cancels.

#include "foretrace/hardware/device.hpp"
#include "foretrace/hardware/occupancy.hpp"
#include "foretrace/hardware/work.hpp"

namespace foretrace::hardware {

/// Families whose library picks the kernel by GPU: GEMM, convolution, attention, RNN.
bool kernel_varies(Family family);

/// Can a kernel's time on one of these be carried over to the other? The reason when not: kernels of other vendors are not
/// measured.
Status can_transfer(const Device& from, const Device& to);

/// The time on `to` of one GPU task that took `measured_ns` on `from`. `operation_ns` is what all kernels of its operation took
/// together (the work describes all of them); `shape` is the task's own launch, all zero when the trace does not tell. The
/// same device gives the measured time, to the nanosecond.
Cost transfer(double measured_ns, double operation_ns, const Work& work, const KernelShape& shape, const Device& from,
              const Device& to);

}  // namespace foretrace::hardware
