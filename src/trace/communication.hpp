#pragma once
// Which work moves data between GPUs, by name. The names of all libraries are in src/trace/names/communication.csv; no other code
// tests for them.
//
//   is_communication_kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(…)")   -> true
//   is_communication_range("c10d::allreduce_")                             -> true

#include <string_view>

namespace foretrace::trace {

/// A kernel of a collective or of another exchange between GPUs.
bool is_communication_kernel(std::string_view name);
/// An operation or a range on the CPU that stands for one.
bool is_communication_range(std::string_view name);

}  // namespace foretrace::trace
