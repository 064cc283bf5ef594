#pragma once
// A measured GPU task on another GPU. Kernels that stay the same (element-wise, norms, copies, optimizers) follow bandwidth,
// rates and waves; operations for which libraries pick another kernel on every GPU (products, convolutions, attention) follow
// the ratio of a model of the best kernel on both. Either way the measured time is the anchor, so that what no model knows of
// the kernel cancels.

#include <array>
#include <span>

#include "foretrace/hardware/cost.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/hardware/occupancy.hpp"

namespace foretrace::hardware {

/// Can a kernel's time on one of these be carried over to the other? The reason when not: kernels of other vendors are not
/// measured.
Status can_transfer(const Device& from, const Device& to);

/// The time on `to` of one GPU task that took `measured_ns` on `from`. `operation_ns` is what all kernels of its operation took
/// together (the work describes all of them); `shape` is the task's own launch, all zero when the trace does not tell. The
/// same device gives the measured time, to the nanosecond.
Cost transfer(double measured_ns, double operation_ns, const work::Work& work, const KernelShape& shape,
              const Device& from, const Device& to);
class TransferWeights;
/// What a whole step tells about its products: where all of one kind run faster or slower than the model says (aligned sizes,
/// a library of another version), they do so on the target too. What single ones deviate beyond that is carried in part.
struct TransferContext {
  static constexpr std::size_t kKinds = 4;
  std::array<double, kKinds> common = {};    ///< mean of log(measured / model) by kind of product, weighted by time
  const TransferWeights* weights = nullptr;  ///< null: those compiled in. Others are fitted without one GPU

  /// Fills `common` from the operations of a step and what each took.
  void learn(std::span<const work::Work> works, std::span<const double> operation_ns, const Device& from);
  [[nodiscard]] const TransferWeights& parameters() const;
};
Cost transfer(double measured_ns, double operation_ns, const work::Work& work, const KernelShape& shape,
              const Device& from, const Device& to, const TransferContext& context);

/// The part of the same kernel alone: a kernel that moves `bytes` (0: not known) and took `measured_us`. What memory explains of its
/// time follows the bandwidth; the rest is arithmetic or latency and follows the rate its blocks can use.
double same_kernel_us(double measured_us, double bytes, const KernelShape& shape, const Device& from, const Device& to);

}  // namespace foretrace::hardware
