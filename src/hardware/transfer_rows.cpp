#include "hardware/transfer_rows.hpp"

#include <algorithm>
#include <optional>

#include "hardware/cost_norm.hpp"
#include "hardware/kernel_features.hpp"
#include "hardware/measured.hpp"
#include "hardware/tables.hpp"

namespace foretrace::hardware {

namespace {

// A batch norm by its law, 0 where that does not speak of it. What it misses the law by here it misses there.
double channel_norm_moved_us(double measured_us, double part, const work::Work& work, const Device& from,
                             const Device& to, const TransferContext& context) {
  Device here = from;  // with what the step's memory reaches
  if (context.streaming_gbs > 0) here.bandwidth_gbs *= context.streaming_gbs / from.streaming_gbs();
  const Laws& laws = context.parameters().laws();
  const double before = channel_norm_us(work, laws, here), after = channel_norm_us(work, laws, to);
  // A kernel that is a small part of its operation does something else.
  if (!(before > 0) || !(after > 0) || part < 0.5) return 0;
  const double start = kernel_start_us(measured_us);
  return start + (measured_us - start) * after / before;
}

}  // namespace

double row_kernel_us(double measured_us, double part, const work::Work& work, const KernelShape& shape,
                     const Device& from, const Device& to, const TransferContext& context) {
  if (const double us = channel_norm_moved_us(measured_us, part, work, from, to, context); us > 0) return us;
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
