#pragma once
// Which instruction of a compiled program each kernel belongs to. A program that runs as one CUDA graph (XLA's command buffers,
// the normal case) names no instruction on its kernels: generated kernels are matched by name, library calls
// and copies by their order between them.

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/importers/hlo_module.hpp"

namespace foretrace::trace {

struct RanKernel {
  std::string_view name;
  std::string_view instruction;  ///< what the profiler says it is of; empty or a command buffer's name when unknown
  bool copy = false, fill = false;
  bool collective = false;  ///< by its name, as trace::is_communication_kernel shows; costly, and names repeat
};

struct KernelOrigin {
  std::uint32_t launch = kNone;  ///< of HloModule::launches
  std::uint32_t part = 0;        ///< of the kernels of that launch, which
};

/// One row per kernel, which are those of one program in the order they ran, over any number of executions.
std::vector<KernelOrigin> match_kernels(const HloModule& module, const std::vector<RanKernel>& kernels);

}  // namespace foretrace::trace
