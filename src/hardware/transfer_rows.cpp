#include "hardware/transfer_rows.hpp"

#include <algorithm>
#include <optional>

#include "hardware/kernel_features.hpp"
#include "hardware/measured.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

double row_kernel_us(double measured_us, double part, const work::Work& work, const KernelShape& shape,
                     const Device& from, const Device& to, const TransferContext& context) {
  const double same = same_kernel_us(measured_us, {work.bytes() * part, just_written(work) * part}, shape, from, to,
                                     context.streaming_gbs);
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
