#include <algorithm>
#include <array>
#include <utility>

#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

namespace {

using enum EventKind;
using Spelling = std::pair<std::string_view, EventKind>;

// Every spelling of `cat` met in traces from 2021 to today, sorted for binary search.
constexpr auto kSpellings = std::to_array<Spelling>({
    {"Kernel", kKernel},
    {"Memcpy", kMemcpy},
    {"Memory", kMemory},
    {"Memset", kMemset},
    {"Operator", kOp},
    {"Python", kPython},
    {"PythonFunction", kPython},
    {"Runtime", kRuntime},
    {"Trace", kSpan},
    {"collective_comm", kKernel},
    {"concurrent_kernel", kKernel},
    {"cpu_op", kOp},
    {"cuda_driver", kRuntime},
    {"cuda_event", kCudaEvent},
    {"cuda_runtime", kRuntime},
    {"cuda_sync", kSync},
    {"gpu_memcpy", kMemcpy},
    {"gpu_memset", kMemset},
    {"gpu_user_annotation", kGpuAnnotation},
    {"hip_runtime", kRuntime},
    {"hpu_op", kOp},
    {"kernel", kKernel},
    {"mtia_ccp_events", kKernel},
    {"mtia_runtime", kRuntime},
    {"overhead", kOverhead},
    {"privateuse1_driver", kRuntime},
    {"privateuse1_runtime", kRuntime},
    {"python_function", kPython},
    {"user_annotation", kAnnotation},
    {"xpu_driver", kRuntime},
    {"xpu_runtime", kRuntime},
    {"xpu_sync", kSync},
});
static_assert(std::is_sorted(kSpellings.begin(), kSpellings.end()));

constexpr std::array<std::string_view, static_cast<std::size_t>(kCount)> kNames = {
    "cpu_op",  "annotation", "runtime", "kernel",   "memcpy",   "memset",     "gpu_annotation",
    "sync",    "cuda_event", "python",  "memory",   "overhead", "flow_start", "flow_end",
    "counter", "span",       "instant", "metadata", "other"};

}  // namespace

std::string_view to_string(EventKind kind) { return kNames[static_cast<std::size_t>(kind)]; }

EventKind event_kind(std::string_view category, char ph, std::string_view name) {
  if (ph == 'M') return kMetadata;
  if (ph == 's') return kFlowStart;
  if (ph == 'f' || ph == 't') return kFlowEnd;
  if (ph == 'C') return kCounter;
  if (ph == 'i' || ph == 'I' || ph == 'R') return name == "[memory]" ? kMemory : kInstant;
  const auto it = std::lower_bound(kSpellings.begin(), kSpellings.end(), category,
                                   [](const Spelling& s, std::string_view c) { return s.first < c; });
  if (it != kSpellings.end() && it->first == category) {
    return it->second == kOp && is_range_among_ops(name) ? kAnnotation : it->second;
  }
  return kOther;
}

}  // namespace foretrace::trace
