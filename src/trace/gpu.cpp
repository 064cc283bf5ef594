#include "trace/gpu.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace foretrace::trace {

namespace {

GpuVendor vendor_in_name(std::string_view device) {
  const std::string name = lower(device);
  if (contains_any(name, {"nvidia", "tesla", "geforce", "quadro", "titan"})) return GpuVendor::kNvidia;
  if (contains_any(name, {"amd", "instinct", "radeon", "gfx"})) return GpuVendor::kAmd;
  return GpuVendor::kUnknown;
}

}  // namespace

GpuVendor gpu_vendor(const Trace& trace) {
  for (const DeviceProperties& d : trace.devices) {
    if (const GpuVendor named = vendor_in_name(d.name); named != GpuVendor::kUnknown) return named;
  }
  for (const auto& [key, value] : trace.metadata) {
    if (key.starts_with("hip_") || key.starts_with("roctracer") || key.starts_with("rocprofiler"))
      return GpuVendor::kAmd;
    if (key.starts_with("cuda_") || key.starts_with("cupti")) return GpuVendor::kNvidia;
  }
  for (std::size_t i = 0; i < trace.strings.size(); ++i) {
    const std::string_view name = trace.strings[StringId{i}];
    if (name.starts_with("cudaLaunch") || name.starts_with("cuLaunch")) return GpuVendor::kNvidia;
    if (name.starts_with("hipLaunch") || name.starts_with("hipModuleLaunch") || name.starts_with("hipExt") ||
        name.starts_with("hipMemcpy") || name.starts_with("hipGraphLaunch")) {
      return GpuVendor::kAmd;
    }
  }
  // Instinct cards run waves of 64; no NVIDIA GPU does.
  for (const DeviceProperties& d : trace.devices) {
    if (d.warp_size == 64) return GpuVendor::kAmd;
  }
  return GpuVendor::kUnknown;
}

std::optional<std::int64_t> busiest_gpu(const Trace& trace) {
  std::vector<std::uint64_t> per_lane(trace.lanes.size(), 0);
  for (std::size_t e = 0; e < trace.size(); ++e) {
    if (is_gpu_work(trace.kind(e))) ++per_lane[trace.events.lane[e].index()];
  }
  std::map<std::int64_t, std::uint64_t> work;
  for (std::size_t l = 0; l < per_lane.size(); ++l) {
    if (per_lane[l] > 0 && trace.lanes[l].pid_number != kAbsent) work[trace.lanes[l].pid_number] += per_lane[l];
  }
  const auto most =
      std::max_element(work.begin(), work.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return most == work.end() ? std::nullopt : std::optional(most->first);
}

const DeviceProperties* properties_of(const Trace& trace, std::int64_t gpu) {
  for (const DeviceProperties& d : trace.devices) {
    if (d.id == gpu) return &d;
  }
  if (trace.devices.empty()) return nullptr;
  const DeviceProperties& first = trace.devices.front();
  const bool alike = std::all_of(trace.devices.begin(), trace.devices.end(), [&](const DeviceProperties& d) {
    return d.name == first.name && d.sm_count == first.sm_count;
  });
  return alike && gpu_vendor(trace) != GpuVendor::kNvidia ? &first : nullptr;
}

std::int64_t threads_per_sm(std::int64_t major, std::int64_t minor) {
  if (major == 7 && minor == 5) return 1024;                  // Turing
  if ((major == 8 && minor > 0) || major == 12) return 1536;  // Ampere and Ada without HBM, workstation Blackwell
  return 2048;
}

std::int64_t threads_per_sm(const DeviceProperties* gpu) {
  if (gpu == nullptr) return threads_per_sm(kAbsent, kAbsent);
  return gpu->max_threads_per_sm > 0 ? gpu->max_threads_per_sm : threads_per_sm(gpu->compute_major, gpu->compute_minor);
}

const DeviceProperties* main_properties(const Trace& trace) {
  if (trace.devices.empty()) return nullptr;
  const std::optional<std::int64_t> busiest = busiest_gpu(trace);
  const DeviceProperties* known = busiest ? properties_of(trace, *busiest) : nullptr;
  return known != nullptr ? known : &trace.devices.front();
}

}  // namespace foretrace::trace
