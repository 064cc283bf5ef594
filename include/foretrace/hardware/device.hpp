#pragma once
// A GPU model: one TOML file in src/hardware/devices, compiled into the library, or a user's own file of the same form. A
// figure without a source is left out: optional fields are 0 when unknown.

#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::hardware {

/// Element types that run at different rates.
enum class Dtype : std::uint8_t { kFp32, kTf32, kFp16, kBf16, kFp64, kInt, kOther };
inline constexpr std::size_t kDtypes = 7;
std::string_view to_string(Dtype dtype);
/// Bytes of one element in memory (tf32 is stored as fp32).
std::int64_t bytes_of(Dtype dtype);
/// From a trace's spelling: "float", "c10::Half", "c10::BFloat16", "double", "long int", …
Dtype parse_dtype(std::string_view text);

struct Device {
  std::string name;                 ///< file stem, "H200-SXM"
  std::string full_name;            ///< as the driver reports it, "NVIDIA H200"
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0;
  double clock_mhz = 0;             ///< boost
  double memory_gb = 0;
  double bandwidth_gbs = 0;         ///< peak, GB/s
  double achievable_bandwidth = 0;  ///< fraction of peak a streaming kernel reaches
  double l2_mb = 0;
  double tflops_fp32 = 0;           ///< CUDA cores
  double tflops_tf32 = 0;           ///< dense tensor-core rates; 0: none
  double tflops_fp16 = 0;
  double tflops_bf16 = 0;
  double pcie_gbs = 0;              ///< pinned host copies, one direction
  double usd_per_hour = 0;
  std::string price_source;
  std::string source;
};

/// All built-in devices, sorted by name.
const std::vector<Device>& devices();
/// By file stem, ignoring case and vendor; an error with the closest names otherwise.
Result<Device> find_device(std::string_view name);
/// A user's file.
Result<Device> load_device(const std::string& path);
/// The device a trace was recorded on: by the driver's name, else by properties (said in `how`); the trace's own figures
/// (SM count, memory) win over the file's. Declined when nothing comes near.
struct DeviceMatch {
  Device device;
  std::string how;  ///< "by name", "by properties", …
};
Result<DeviceMatch> device_of(const trace::Trace& trace);

}  // namespace foretrace::hardware
