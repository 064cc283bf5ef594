#pragma once
// What an event is, independent of how a profiler's version spelled it ("Operator", "cpu_op" and "hpu_op" are all
// kOp). The spelling itself is kept beside it: Trace::categories.

#include <cstdint>
#include <string_view>

namespace foretrace::trace {

enum class EventKind : std::uint8_t {
  kOp,             ///< framework operation on a CPU thread (aten::mm, autograd nodes)
  kAnnotation,     ///< user range on a CPU thread (ProfilerStep#N, layer:…, Optimizer.step#…)
  kRuntime,        ///< CUDA/HIP runtime or driver call
  kKernel,         ///< GPU kernel
  kMemcpy,         ///< GPU copy
  kMemset,         ///< GPU fill
  kGpuAnnotation,  ///< user range projected onto a GPU stream
  kSync,           ///< CUPTI synchronisation record (Stream Sync, Stream Wait Event, …)
  kCudaEvent,      ///< CUPTI event record
  kPython,         ///< Python frame or nn.Module call
  kMemory,         ///< allocator event: [memory]
  kOverhead,       ///< the profiler's own cost, Command Buffer Full
  kFlowStart,      ///< flow arrow, tail
  kFlowEnd,        ///< flow arrow, head
  kCounter,        ///< counter sample
  kSpan,           ///< the profiler's own span rows ("Trace")
  kInstant,        ///< other instants (Iteration Start, Record Window End)
  kMetadata,       ///< names and sort order of processes and threads
  kOther,          ///< anything else, kept with its category
  kCount
};

/// "kernel", "cpu_op", …: stable names for JSON and Python.
std::string_view to_string(EventKind kind);
/// Traces before 2022 write the framework's ranges under the category of operations; their names tell them apart.
constexpr bool is_range_among_ops(std::string_view name) {
  for (const std::string_view start :
       {"ProfilerStep#", "enumerate(DataLoader)", "Optimizer.", "DistributedDataParallel.", "layer:"}) {
    if (name.starts_with(start)) return true;
  }
  return false;
}
/// From the `cat` of an event of Chrome phase `ph`; knows the old, new, ROCm, XPU and MTIA spellings.
EventKind event_kind(std::string_view category, char ph, std::string_view name);

constexpr bool is_gpu_work(EventKind k) {
  return k == EventKind::kKernel || k == EventKind::kMemcpy || k == EventKind::kMemset;
}
/// Kinds that lie on a GPU stream's row rather than on a CPU thread's.
constexpr bool is_gpu_row(EventKind k) {
  return is_gpu_work(k) || k == EventKind::kGpuAnnotation || k == EventKind::kSync || k == EventKind::kCudaEvent;
}

}  // namespace foretrace::trace
