#pragma once
// A GPU model: one TOML file in src/hardware/devices, compiled into the library, or a user's own file of the same form. A
// figure without a source is left out: optional fields are 0 when unknown.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/work/dtype.hpp"

namespace foretrace::hardware {

struct Device {
  std::string name;                       ///< file stem, "H200-SXM"
  std::string full_name;                  ///< as the driver reports it, "NVIDIA H200"
  std::vector<std::string> driver_names;  ///< all spellings drivers use, full_name first
  std::string file;                       ///< a user's file it was read from; empty for those compiled in
  std::string vendor;                     ///< "nvidia", "amd"
  std::string architecture;               ///< AMD's name of it, "gfx942"; empty when the file gives none
  int compute_major = 0, compute_minor = 0;
  int sm_count = 0;
  double clock_mhz = 0;  ///< boost
  /// SMs and clock that the peak rates below were given for: what one SM does in a clock is the rate over both.
  int rated_sms = 0;
  double rated_clock_mhz = 0;
  int threads_per_sm = 0, blocks_per_sm = 0, registers_per_sm = 0;
  double shared_kb_per_sm = 0;
  double memory_gb = 0;
  double bandwidth_gbs = 0;  ///< peak, GB/s
  double achievable_bandwidth =
      0;  ///< fraction of peak a streaming kernel reaches; the usual one where nobody measured it
  double l2_mb = 0;
  double tflops_fp32 = 0;         ///< CUDA cores
  double tflops_fp32_matrix = 0;  ///< of products in fp32 on matrix cores (AMD); 0: none
  double tflops_tf32 = 0;         ///< dense tensor-core rates, fp32 accumulation; 0: none
  double tflops_fp16 = 0;
  double tflops_bf16 = 0;
  double pcie_gbs = 0;    ///< pinned host copies, one direction
  double nvlink_gbs = 0;  ///< both directions together
  double power_w = 0;
  double usd_per_hour = 0;
  std::string price_source;  ///< "2026-11-09, provider, on demand": begins with its date
  std::string source;

  /// Dense rate in TFLOP/s an element type's products can reach at best; falls back to the rate without tensor cores.
  [[nodiscard]] double tflops(work::Dtype dtype) const;
  /// FLOP of one SM in one clock for this element type, at the rate `tflops` says.
  [[nodiscard]] double flops_per_clock(work::Dtype dtype) const;
  /// Whether its tensor cores multiply FP8: NVIDIA's from compute capability 8.9 on, AMD's from gfx942 on, at twice the rate of
  /// half precision each (vendors' data sheets).
  [[nodiscard]] bool multiplies_fp8() const;
  /// Bytes per ns (GB/s) a streaming kernel reaches.
  [[nodiscard]] double streaming_gbs() const { return bandwidth_gbs * achievable_bandwidth; }
};

/// What is taken of a device whose file does not say it: src/hardware/devices/usual.csv, which tools/fit_devices.py writes.
struct UsualDevice {
  double bandwidth_share = 0;  ///< of the peak, that a streaming kernel reaches
  double pcie_share = 0;       ///< of a PCIe link, that pinned copies reach
  /// The energy a multiplication on tensor cores takes falls with this power of the width of transistors, from this width (nm) on.
  double tensor_power = 0, tensor_node = 0;
};
const UsualDevice& usual_device();
/// The clock of a device whose file gives none, which nobody measured: the built-in files all give theirs, 1063 to 2617.
inline constexpr double kUsualClockMhz = 1500;
/// The clock its kernels run at, in MHz.
inline double clock_of(const Device& device) { return device.clock_mhz > 0 ? device.clock_mhz : kUsualClockMhz; }

/// Room left for what the CUDA context and the libraries' own buffers take before the first tensor, which nobody measured for these devices.
inline constexpr std::int64_t kDriverBytes = 1'000'000'000;

/// Equal in all that moves a kernel, whatever they are called; two boards may differ in memory only.
bool same_device(const Device& a, const Device& b);

/// All built-in devices, sorted by name.
const std::vector<Device>& devices();
/// By file stem, ignoring case and vendor; an error with the closest names otherwise.
Result<Device> find_device(std::string_view name);
/// A user's file.
Result<Device> load_device(const std::string& path);
/// A name of the list, else a user's file of that path.
Result<Device> device_or_file(const std::string& name);
/// A device from the text of a TOML file; `name` is its stem, `origin` names it in errors.
Result<Device> parse_device(std::string_view text, std::string name, const std::string& origin);
/// The device a trace was recorded on: by the driver's name, else by properties (said in `how`); the trace's own figures
/// (SM count, memory) win over the file's, and rates follow the SM count (a partitioned GPU). Declined when nothing comes near.
struct DeviceMatch {
  Device device;
  std::string how;  ///< "by name", "by properties", …
};
/// `own` are the user's device files, looked at first.
Result<DeviceMatch> device_of(const trace::Trace& trace, const std::vector<Device>& own = {});

}  // namespace foretrace::hardware
