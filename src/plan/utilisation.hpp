#pragma once
// Model FLOPs utilisation: the FLOP of a step over what its GPUs could do in that time.

#include <array>
#include <optional>

#include "foretrace/hardware/device.hpp"
#include "foretrace/work/work.hpp"

namespace foretrace::plan {

/// FLOP by the type that products compute in.
using FlopsByType = std::array<double, work::kDtypes>;

/// FLOP/s of a device that works on products of these types at their dense peaks. Nothing where a peak is unknown, or there is no product.
std::optional<double> peak_of(const FlopsByType& products, const hardware::Device& device);

}  // namespace foretrace::plan
