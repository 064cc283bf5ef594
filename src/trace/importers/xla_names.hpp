#pragma once
// What the profiler of XLA (JAX, TensorFlow) calls things, in xplane files and in the JSON made of them.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// What a row of a host thread is, by its name.
EventKind xla_host_kind(std::string_view name);
/// "cuGraphLaunch (CudaGraph:251)" -> "cuGraphLaunch".
std::string_view xla_call_name(std::string_view name);
/// The call that launched a kernel, copy or fill of this name.
std::string_view xla_launch_name(std::string_view launched);

/// "regs:21 static_shared:32 dynamic_shared:0 grid:512,1,1 block:256,1,1 occ_pct:100"
struct XlaKernelDetails {
  std::int64_t registers = 0, shared_memory = 0;
  std::array<std::int64_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  double occupancy = -1;
};
XlaKernelDetails parse_kernel_details(std::string_view text);

/// "kind_src:device kind_dst:pinned size:4096 dest:0 async:1" and "kind:unknown num_bytes:768 async:0".
struct XlaCopyDetails {
  std::int64_t bytes = 0;
  std::string from, to;
};
XlaCopyDetails parse_copy_details(std::string_view text);

/// What a row of a GPU's stream is, and its name as the rest of the project spells it: "MemcpyH2D" is "Memcpy HtoD (… -> …)".
EventKind xla_gpu_kind(std::string_view name);
std::string xla_copy_name(std::string_view name, const XlaCopyDetails& details);

/// "Stream #14(Compute,Memset)" -> 14; nothing for rows that were derived from others ("XLA Ops", "Steps").
std::optional<std::int64_t> xla_stream(std::string_view line);
/// "/device:GPU:3" -> 3.
std::optional<std::int64_t> xla_gpu(std::string_view plane);
/// "$$1" and "1" -> 1; 0 for what is no number.
std::int64_t xla_number(std::string_view text);

}  // namespace foretrace::trace
