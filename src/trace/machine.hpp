#pragma once
// Which kind of program a trace shows, and on which machine it ran, for formats that serve several.

#include <string_view>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// The metadata key under which importers name an accelerator that is no GPU: "TPU".
inline constexpr std::string_view kAcceleratorKey = "foretraceAccelerator";

/// "TPU"; empty for a GPU.
std::string_view other_accelerator(const Trace& trace);

enum class Framework : std::uint8_t {
  kPyTorch,     ///< and whatever else writes Kineto traces or runs under Nsight
  kXla,         ///< a program that XLA compiled: JAX, or TensorFlow with jit_compile
  kTensorFlow,  ///< TensorFlow's own executor
};
/// XLA's profiler records both: kernels of a compiled program name its operations, those of TensorFlow's executor do not.
Framework framework_of(const Trace& trace);

}  // namespace foretrace::trace
