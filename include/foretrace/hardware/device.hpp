#pragma once
// A GPU model: one TOML file in src/hardware/devices, compiled into the library, or a user's own file of the same form. A
// figure without a source is left out: optional fields are 0 when unknown.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/work/work.hpp"

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
  double memory_gb = 0;      ///< as it is sold; of a trace's GPU what the driver says
  double reported_gb = 0;    ///< 10^9 bytes that the driver reports (torch's total_memory): what a step has to fit in
  double bandwidth_gbs = 0;  ///< peak, GB/s
  double achievable_bandwidth =
      0;  ///< fraction of peak a streaming kernel reaches; the default where it was not measured
  double l2_mb = 0;
  double tflops_fp32 = 0;         ///< CUDA cores
  double tflops_fp32_matrix = 0;  ///< of products in fp32 on matrix cores (AMD); 0: none
  double tflops_tf32 = 0;         ///< dense tensor-core rates, fp32 accumulation; 0: none
  double tflops_fp16 = 0;
  double tflops_bf16 = 0;
  double pcie_gbs = 0;    ///< pinned host copies, one direction
  double nvlink_gbs = 0;  ///< both directions together
  double power_w = 0;
  /// The clock that large products hold, as a share of clock_mhz, where it was measured: strict FP32, TF32, half precision.
  /// 0: what the power limit leaves (board_power.hpp).
  double sustained_fp32 = 0, sustained_tf32 = 0, sustained_half = 0;
  double usd_per_hour = 0;
  /// Known when a trace comes from it or when it is asked for; `foretrace gpus` does not list it by itself.
  bool recognised_only = false;
  /// Above 0: no file describes this GPU, and its clock and bandwidth are guesses. The spread of their logarithm.
  double guessed_sigma = 0;
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

/// Defaults for what a device's file leaves out: src/hardware/devices/defaults.csv, which tools/fit_devices.py writes.
struct DeviceDefaults {
  double bandwidth_share = 0;  ///< of the peak, that a streaming kernel reaches
  double reported_share = 0;   ///< of the memory as it is sold (in 2^30 bytes), that the driver reports
  double pcie_share = 0;       ///< of a PCIe link, that pinned copies reach
  /// The energy a multiplication on tensor cores takes falls with this power of the width of transistors, from this width (nm) on.
  double tensor_power = 0, tensor_node = 0;
};
const DeviceDefaults& device_defaults();
/// An assumption for a device whose file gives no clock: the built-in files all give theirs, 1063 to 2617.
inline constexpr double kDefaultClockMhz = 1500;
/// The clock its kernels run at, in MHz.
inline double clock_of(const Device& device) { return device.clock_mhz > 0 ? device.clock_mhz : kDefaultClockMhz; }

/// Room for what the CUDA context and the libraries' own buffers take before the first tensor: an assumption, not measured for these devices.
inline constexpr std::int64_t kDriverBytes = 1'000'000'000;

/// Equal in everything that a kernel's time depends on, whatever their names; two boards may differ in memory only.
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
/// The device a trace was recorded on: by the driver's name, else by properties (`how` says which); the trace's own figures
/// (SM count, memory) win over the file's, and rates follow the SM count (a partitioned GPU). Declined when no device is similar.
struct DeviceMatch {
  Device device;
  std::string how;       ///< "by name", "by properties", …
  bool by_name = false;  ///< the driver's name is that of the device
};
/// `own` are the user's device files, looked at first.
Result<DeviceMatch> device_of(const trace::Trace& trace, const std::vector<Device>& own = {});

// A network between GPUs: one TOML file in src/hardware/fabrics, compiled into the library, or a user's own file of the same
// form. Levels go from the innermost (NVLink inside a node) to the outermost (the network between nodes).
//
//   about = "eight H100 behind NVSwitch, one 400 Gb/s InfiniBand port per GPU"
//   source = "…"
//   gpus_per_node = 8
//   [[level]]
//   name = "NVLink 4"
//   link = "nvlink"            # nvlink, pcie, network: which of NCCL's latencies hold
//   gbs = 450                  # GB/s in one direction, per GPU (or per node: per_node = true)
//   efficiency = 0.82          # what large collectives reach of it
//   nvls = true                # the switch adds up (NVLink SHARP)
//   sharp = true               # of a network: its switches add up (SHARP, with NCCL's plugin for it)
//   [[level]]
//   name = "NDR"
//   …

enum class LinkKind : std::uint8_t { kNvlink, kPcie, kNetwork };
std::string_view to_string(LinkKind kind);

struct FabricLevel {
  std::string name;
  LinkKind link = LinkKind::kNetwork;
  double gbs = 0;            ///< GB/s (bytes per ns), one direction
  bool per_node = false;     ///< `gbs` is shared by the GPUs of a node (one Ethernet port); else each GPU has it
  double efficiency = 1;     ///< share of `gbs` that large collectives reach
  double latency_scale = 1;  ///< of the steps' latencies, against what NCCL assumes for this kind of link
  double extra_us = 0;       ///< added to each step: the host's network stack (TCP)
  bool nvls = false;
  bool sharp = false;
};

struct Fabric {
  std::string name;
  std::string about;
  std::string source;
  int gpus_per_node = 1;  ///< joined by the innermost of two levels; with one level: all GPUs are joined by it
  std::vector<FabricLevel> levels;  ///< one or two
  double floor_us = 0;        ///< the least time of a collective: what the host needs to launch one (benchmarks' loops)
  bool hierarchical = false;  ///< the library may reduce inside nodes first (Horovod's switch; NCCL does not)
  int channels = 0;           ///< thread blocks a collective occupies; 0: NCCL's typical number for the link
};

/// All built-in fabrics, sorted by name.
const std::vector<Fabric>& fabrics();
/// By file stem, ignoring case and punctuation; an error with the closest names otherwise.
Result<Fabric> find_fabric(std::string_view name);
/// A user's file.
Result<Fabric> load_fabric(const std::string& path);
/// `text` is a built-in name or the path of a file.
Result<Fabric> fabric_from(const std::string& text);
/// From the text of a TOML file; `name` is its stem, `origin` names it in errors.
Result<Fabric> parse_fabric(std::string_view text, std::string name, const std::string& origin);

/// The same fabric with K GPUs in a node. A fabric that only has a network between nodes gets `inner` inside them.
Result<Fabric> with_gpus_per_node(const Fabric& fabric, int gpus, const FabricLevel& inner);

}  // namespace foretrace::hardware
