#include "hardware/transfer_rows.hpp"

#include <algorithm>
#include <optional>

#include "hardware/kernel_features.hpp"
#include "hardware/measured.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

// Of what a kernel reads, what the kernel before it wrote: one operand, whole. Parameters, their gradients and an optimizer's state were written long
// before, and rows of a table are taken from anywhere.
double just_written(const work::Work& w) {
  const bool cold = w.of_parameters || w.family == work::Family::kOptimizer || std::holds_alternative<Gather>(w.kind);
  if (cold) return 0;
  return std::min(w.bytes_read, static_cast<double>(w.elements * work::bytes_of(w.dtype)));
}

}  // namespace

double row_kernel_us(double measured_us, double part, const work::Work& work, const KernelShape& shape,
                     const Device& from, const Device& to, const TransferContext& context) {
  const double same = same_kernel_us(measured_us, {work.bytes() * part, just_written(work) * part}, shape, from, to, context.streaming_gbs);
  const bool by_law = std::holds_alternative<Rows>(work.kind) || std::holds_alternative<Gather>(work.kind) ||
                      std::holds_alternative<Pooling>(work.kind);
  if (!by_law) return same;
  const std::optional<KernelFeatures> here = kernel_features(work, from, context.parameters());
  const std::optional<KernelFeatures> there = kernel_features(work, to, context.parameters());
  if (!here || !there || !(here->serial_us > 0)) return same;
  const double share = std::clamp(here->serial_us / here->law_us, 0.0, 1.0);
  return (1 - share) * same + share * measured_us * there->law_us / here->law_us;
}

}  // namespace foretrace::hardware
