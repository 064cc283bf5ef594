#pragma once
// The time of a measured GPU task on another GPU. Kernels that stay the same (element-wise, norms, copies, optimizers) follow bandwidth,
// rates and waves; operations for which libraries pick another kernel on every GPU (products, convolutions, attention) follow
// the ratio of a model of the best kernel on both. In both cases the measured time is scaled, so that errors of the model that
// are the same on both GPUs cancel.

#include <array>
#include <span>

#include "foretrace/hardware/device.hpp"
#include "hardware/cost.hpp"

namespace foretrace::hardware {

/// Standard deviation of log time for a kernel that no model carries to another GPU. Nobody measured one: a choice.
inline constexpr double kUntransferableSigma = 0.5;

/// A kernel launch. Shared memory is static and dynamic together, without what the driver reserves.
struct KernelShape {
  std::int64_t blocks = 0;
  std::int64_t threads = 0;  ///< of one block
  std::int64_t registers = 0;
  std::int64_t shared_bytes = 0;
};

class Tables;

/// What a whole step shows of its GPU. Where all products of one kind run faster or slower than the model says (aligned sizes,
/// another library version), they do so on the target too; and its streaming kernels reach some bandwidth.
struct TransferContext {
  static constexpr std::size_t kKinds = 5;
  std::array<double, kKinds> common = {};  ///< mean of log(measured / model) by kind of product, weighted by time
  double streaming_gbs = 0;        ///< what element-wise kernels of this step reach; 0: what the device file says
  bool alone = false;              ///< kernels were measured one by one: none wrote what the next one reads
  const Tables* tables = nullptr;  ///< null: those compiled in. Others were fitted without one GPU

  /// Fills both from the operations of a step and what each took.
  void learn(std::span<const work::Work> works, std::span<const double> operation_ns, const Device& from);
  [[nodiscard]] const Tables& parameters() const;
};

/// The time on `to` of one GPU task that took `measured_ns` on `from`. `operation_ns` is what all kernels of its operation took
/// together (the work describes all of them); `shape` is the task's own launch, all zero when the trace does not tell. The
/// same device gives the measured time, to the nanosecond.
Cost transfer(double measured_ns, double operation_ns, const work::Work& work, const KernelShape& shape,
              const Device& from, const Device& to, const TransferContext& context = {});

/// What a kernel moves, in bytes.
struct Moved {
  // Most callers have bytes alone.
  // NOLINTNEXTLINE(google-explicit-constructor)
  Moved(double all, double just_written = 0) : bytes(all), hot(just_written) {}
  double bytes = 0;  ///< 0: not known
  double hot = 0;    ///< of those, what the kernel before it wrote: read from L2 as far as it fits
};

/// Of what a kernel of a step reads, what the kernel before it wrote: one operand, whole. Parameters, their gradients and an optimizer's state
/// were written long before, and rows of a table are taken from anywhere.
double just_written(const work::Work& work);
/// The GPU as a kernel sees it that finds a part of what it reads in L2: with more bandwidth.
Device with_l2_hits(const Moved& moved, const Device& device);

/// The part of the same kernel alone. What memory takes follows the bandwidth, arithmetic and latency the rate its blocks can use.
/// `from_gbs`: what streaming kernels reach on `from`; 0 for what its file says. Continuous, and never falls as the measured time
/// grows or as a figure of `to` gets worse; 10 % more time gives at most 1.5 times the answer. A kernel that goes there and back takes what it took.
double same_kernel_us(double measured_us, const Moved& moved, const KernelShape& shape, const Device& from,
                      const Device& to, double from_gbs = 0);
/// What of a kernel's time no GPU shortens: the soft minimum of it and a microsecond.
double kernel_start_us(double measured_us);
/// What streaming kernels reach on `from`, in GB/s: from the element-wise work of a step that does not fit in L2, drawn to the device
/// file's figure where there is little of it.
double learnt_streaming_gbs(std::span<const work::Work> works, std::span<const double> operation_ns,
                            const Device& from);

}  // namespace foretrace::hardware
