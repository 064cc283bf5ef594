#pragma once
// Which GPU a trace was recorded on. Profilers number GPUs differently: CUPTI by device, as in deviceProperties; ROCm's tracers by
// agent of the machine, where CPUs count too, so that the only GPU may be number 9.

#include <cstdint>
#include <optional>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

enum class GpuVendor : std::uint8_t { kUnknown, kNvidia, kAmd };

/// By what the file says of its profiler and devices, else by the names of its calls (cuda…, hip…).
GpuVendor gpu_vendor(const Trace& trace);

/// The number of the GPU that did most; nothing when none worked.
std::optional<std::int64_t> busiest_gpu(const Trace& trace);

/// What the file says of the GPU with this number. Where numbers are of another order and all GPUs the file describes are
/// alike, any of them; nullptr when it cannot be determined.
const DeviceProperties* properties_of(const Trace& trace, std::int64_t gpu);

/// Threads one SM of a GPU holds at a time: what the file says, else what GPUs of its compute capability hold; those of
/// data-centre GPUs, 2048, where neither is known (nullptr).
std::int64_t threads_per_sm(const DeviceProperties* gpu);
/// By compute capability (CUDA C++ programming guide, "technical specifications per compute capability").
std::int64_t threads_per_sm(std::int64_t compute_major, std::int64_t compute_minor);

/// Of the GPU that did most, else of the first one described; nullptr when the file describes none.
const DeviceProperties* main_properties(const Trace& trace);

}  // namespace foretrace::trace
