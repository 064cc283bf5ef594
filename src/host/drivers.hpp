#pragma once
// What launching costs the CPU under another maker's driver: drivers.csv, which tools/fit_launches.py writes.
//
//   launches_under("nvidia", "amd").ratio;      // 0.86: a launch under AMD's driver over one under NVIDIA's, on the same host

#include <string_view>

#include "foretrace/host/unprofiled.hpp"

namespace foretrace::host {

struct DriverChange {
  double ratio = 1;  ///< of the time of a call that gives the GPU work
  double sigma = 0;  ///< of its logarithm
};

/// For GPUs of two makers ("nvidia", "amd"); nothing changes where they are the same, or a maker is not in the table.
DriverChange launches_under(std::string_view from, std::string_view to);

/// What inserted work costs there: every figure that has one launch call in it.
void change_driver(HostCosts& host, double ratio);

}  // namespace foretrace::host
