#pragma once
// What a piece of work costs on a device.
//
//   work::Work product = work::gemm_work(1, 4096, 3072, 768, work::Dtype::kFp32);
//   work::Work half = with_dtype(product, work::Dtype::kFp16);
//   Cost cost = predict(half, device);                                           // from tables and figures alone
//   cost = rescale(static_cast<double>(measured_ns), product, half, device);       // from what the first one took

#include "foretrace/base/types.hpp"
#include "foretrace/hardware/device.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::hardware {

/// The time, in ns, a piece of work takes on a device, and how it was found.
struct Cost {
  double ns = 0;
  Origin origin = Origin::kAnalytic;
  double sigma = 0;    ///< of log time: error of this family's model
  bool known = false;  ///< false: outside what the models cover; do not use
};

/// Absolute model: from tables and hardware figures. Whole operation, all its kernels.
Cost predict(const work::Work& work, const Device& device);
/// Anchored model: `measured_ns` is what `was` took on the device; scales it by the ratio of predictions, bounded by what the
/// hardware can do. The way to change precision, layout or shape of a measured operation; transfer.hpp's is the way to another
/// GPU. Where nothing changes the measured time comes back as it is.
Cost rescale(double measured_ns, const work::Work& was, const work::Work& becomes, const Device& device);
/// No kernel can be faster: the larger of bytes over peak bandwidth (L2 aside) and operations over peak rate. 0 when neither
/// is known.
double roofline_ns(const work::Work& work, const Device& device);

}  // namespace foretrace::hardware
