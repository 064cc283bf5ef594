#include "hardware/transfer_rows.hpp"

#include <algorithm>
#include <optional>

#include "hardware/measured.hpp"

namespace foretrace::hardware {

double row_kernel_us(double measured_us, double part, const work::Work& work, const KernelShape& shape,
                     const Device& from, const Device& to, double from_gbs) {
  const double same = same_kernel_us(measured_us, work.bytes() * part, shape, from, to, from_gbs);
  const bool by_law = std::holds_alternative<Rows>(work.kind) || std::holds_alternative<Gather>(work.kind) ||
                      std::holds_alternative<Pooling>(work.kind);
  if (!by_law) return same;
  const std::optional<MeasuredPlace> here = measured_place(work, from);
  const std::optional<MeasuredPlace> there = measured_place(work, to);
  if (!here || !there || !(here->waits_us > 0)) return same;
  const double share = std::clamp(here->waits_us / here->bound_us, 0.0, 1.0);
  return (1 - share) * same + share * measured_us * there->bound_us / here->bound_us;
}

}  // namespace foretrace::hardware
