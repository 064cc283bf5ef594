#pragma once
// A key that is the same for different names of one GPU.

#include <string>
#include <string_view>

namespace foretrace::hardware {

/// Without vendor, case and separators: "NVIDIA H100 80GB HBM3" -> "h10080gbhbm3".
std::string device_key(std::string_view name);

}  // namespace foretrace::hardware
