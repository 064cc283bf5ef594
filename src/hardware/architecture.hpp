#pragma once
// GPU architectures, as data: src/hardware/architectures.csv, and of their L2 caches.csv (tools/fit_caches.py).

#include <string>

#include "foretrace/hardware/device.hpp"

namespace foretrace::hardware {

/// What all GPUs of one architecture have in common: a row of src/hardware/architectures.csv.
struct Architecture {
  std::string vendor, name;         ///< "nvidia", "9.0"; "amd", "gfx942"
  std::string laws;                 ///< under which the parameters of its laws stand: "9.0", "amd"
  int capability = 0;               ///< NVIDIA's, 86 of "8.6"; 0 of others
  std::string nearest;              ///< the measured architecture with the most similar SMs
  double process_nm = 0;            ///< the width of transistors
  double half_flops_per_clock = 0;  ///< of an SM where boards are sold below it; 0: the device's own rate
  bool fp8 = false;                 ///< tensor cores multiply FP8
  double l2_share = 1;              ///< of L2's size, what holds data that kernels pass on, over an H200's
  double l2_rate = 1;               ///< bytes of L2 in a clock of an SM, over an H200's
  bool nchw_results = false;        ///< cuDNN's convolutions on tensor cores write NCHW without a copy
};
/// Of an architecture newer than all rows the last one of its vendor.
const Architecture& architecture_of(const Device& device);

}  // namespace foretrace::hardware
