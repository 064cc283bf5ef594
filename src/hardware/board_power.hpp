#pragma once
// The clock that a board's power limit allows while products keep all SMs busy. Multiplications take energy, which follows the
// square of the voltage, and a lower clock needs less voltage: a board of half the power does more than half the work. The energy of an
// architecture's units at the rated clock is data: boards/power.csv, fitted by tools/fit_boards.py to what boards reach in long products.

#include <algorithm>
#include <cmath>

#include "foretrace/hardware/device.hpp"

namespace foretrace::hardware {

/// The share of its rated clock at which the board multiplies when its kernel delivers `tflops` at that clock: what was measured
/// (Device::sustained_*), else what the power limit leaves, at most 1. Never falls as the limit grows, and tflops times the answer
/// never falls as tflops grow.
double clock_share(work::Dtype dtype, double tflops, const Device& device);
/// What no product of the board exceeds, as a share of its rated clock: at least 1, more where it was seen above (GeForce cards).
double highest_clock(work::Dtype dtype, const Device& device);
/// What the power limit alone leaves. Of kernels that reach less than products do: a measured share says nothing about those.
double clock_at_limit(work::Dtype dtype, double tflops, const Device& device);

/// W for each TFLOP/s at the rated clock; 0: not known, no limit.
double watts_per_tflops(work::Dtype dtype, const Device& device);

/// The same board with so many times its power limit: what was measured at the limit moves along.
inline Device with_power(Device device, double factor) {
  device.power_w *= factor;
  // Around what boards run at, power grows with about the square of the clock; a board held back never exceeds its rated clock.
  const auto moved = [&](double& share) {
    if (share > 0) share = std::max(share, std::min(1.0, share * std::sqrt(factor)));
  };
  moved(device.sustained_fp32);
  moved(device.sustained_tf32);
  moved(device.sustained_half);
  return device;
}

}  // namespace foretrace::hardware
