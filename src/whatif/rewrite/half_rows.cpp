#include "whatif/rewrite/half_rows.hpp"

#include "hardware/cost.hpp"

namespace foretrace::whatif {

using work::Access;
using work::Dtype;
using work::Work;

bool change_precision(Model& m, Draft& draft, const Row& row, Precision precision, Dtype dtype) {
  const Work work = m.works[row.work];
  if (precision == Precision::kFloat) return false;
  const auto* driver = std::get_if<work::MemoryCopy>(&work.kind);
  const bool copy = driver != nullptr && !driver->host && precision == Precision::kHalf;
  // Products of FP32 operands, whatever they are multiplied in.
  if (work.dtype != Dtype::kFp32 && work.dtype != Dtype::kTf32 && !copy) return false;
  Work becomes = with_dtype(work, dtype);
  if (copy) {  // made by the driver, which knows bytes only
    becomes = work;
    for (double* bytes : {&becomes.bytes_read, &becomes.bytes_written, &becomes.fixed_read, &becomes.fixed_written})
      *bytes /= 2;
    becomes.elements /= 2;
  }
  if (precision == Precision::kMixed) {
    // One operand in two is half, three quarters of the bytes by definition; but no vectorised loads.
    becomes = work;
    const bool even = work.access == Access::kContiguous || work.access == Access::kMixed;
    becomes.access = even ? Access::kMixed : Access::kMixedStrided;
    becomes.bytes_read = work.fixed_read + 0.75 * (work.bytes_read - work.fixed_read);
  }
  const hardware::Cost cost = rescale_row(m, row, becomes);
  if (!cost.known) return false;
  set_row(m, draft, row, cost, becomes);
  return precision == Precision::kHalf;
}

}  // namespace foretrace::whatif
