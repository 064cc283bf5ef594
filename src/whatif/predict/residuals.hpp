#pragma once
// Residuals from tables: one file per measured device, whatif/residuals/DEVICE.csv.
//
//   read_residuals(DataFiles::shipped(), "H200-SXM").sigma("gemm")     // of log time

#include <string_view>

#include "base/data_files.hpp"
#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// Those of steps measured on this device; where none were, those of the reference device.
Residuals read_residuals(const DataFiles& files, std::string_view device);

}  // namespace foretrace::whatif
