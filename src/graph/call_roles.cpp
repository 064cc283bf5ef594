#include "graph/call_roles.hpp"

#include <array>

#include "base/text.hpp"

namespace foretrace::graph {

namespace {

using enum CallRole;

struct Row {
  std::string_view verb;  // behind the maker's prefix
  bool whole;             // the whole verb; else what it begins with
  CallKind kind;
};

constexpr CallKind waits(CallRole role) { return {.role = role}; }
// A copy without a row of its own on the GPU still waits for what was queued before it.
constexpr CallKind kBlocking = {.role = kDeviceSync, .blocks = true, .copies = true};
constexpr CallKind kCopy = {.copies = true};
constexpr CallKind kKernel = {.launches = true};
constexpr CallKind kGraph = {.launches = true, .graph = true};
constexpr CallKind kAllocate = {.allocates = true};
constexpr CallKind kFree = {.frees = true};
constexpr CallKind kLoad = {.loads = true};

// CUDA's runtime (cuda…), its driver (cu…) and HIP (hip…) share their verbs; the first row that fits counts. Which copies
// block: CUDA Runtime API "API synchronization behavior"; HIP Programming Guide, memory management. Whether an …Async copy
// blocks depends on its memory: pageable memory makes it wait (cpu_tiling asks the copy's own row).
constexpr auto kRows = std::to_array<Row>({
    {"StreamSynchronize", false, waits(kStreamSync)},
    {"DeviceSynchronize", false, waits(kDeviceSync)},
    {"CtxSynchronize", false, waits(kDeviceSync)},
    {"ThreadSynchronize", false, waits(kDeviceSync)},
    {"EventSynchronize", false, waits(kEventSync)},
    {"EventRecord", false, waits(kRecord)},
    {"EventCreate", false, {.makes_event = true}},
    {"StreamWaitEvent", false, waits(kStreamWait)},
    {"LaunchKernel", false, kKernel},
    {"LaunchCooperativeKernel", false, kKernel},
    {"LaunchGrid", false, kKernel},
    {"Launch", true, kKernel},
    {"LaunchHostFunc", false, {}},
    {"ModuleLaunchKernel", false, kKernel},
    {"ModuleLaunchCooperativeKernel", false, kKernel},
    {"ExtModuleLaunchKernel", false, kKernel},
    {"HccModuleLaunchKernel", false, kKernel},
    {"ExtLaunchKernel", false, kKernel},
    {"ExtLaunchMultiKernel", false, kKernel},
    {"DrvLaunchKernel", false, kKernel},
    {"GraphLaunch", false, kGraph},
    {"MemcpyWithStream", false, kBlocking},
    // Between two places on the device the call need not wait.
    {"MemcpyDtoD", false, kCopy},
    {"MemcpyPeer", false, kCopy},
    {"Memcpy", false, kBlocking},
    {"Memset", false, kCopy},
    // In the order of a stream, from a pool: no more than a launch.
    {"MallocAsync", false, {}},
    {"MallocFromPool", false, {}},
    {"FreeAsync", false, {}},
    {"MemAllocAsync", false, {}},
    {"MemAllocFromPool", false, {}},
    {"MemFreeAsync", false, {}},
    {"Malloc", false, kAllocate},
    {"ExtMalloc", false, kAllocate},
    {"HostAlloc", false, kAllocate},
    {"HostMalloc", false, kAllocate},
    {"HostRegister", false, kAllocate},
    {"MemAlloc", false, kAllocate},
    {"MemHostAlloc", false, kAllocate},
    {"MemHostRegister", false, kAllocate},
    {"MemCreate", false, kAllocate},
    {"MemMap", false, kAllocate},
    {"MemSetAccess", false, kAllocate},
    {"MemAddressReserve", false, kAllocate},
    {"Free", false, kFree},
    {"HostFree", false, kFree},
    {"HostUnregister", false, kFree},
    {"MemFree", false, kFree},
    {"MemHostUnregister", false, kFree},
    {"MemUnmap", false, kFree},
    {"MemRelease", false, kFree},
    {"MemAddressFree", false, kFree},
    {"ModuleLoad", false, kLoad},
    {"LibraryLoad", false, kLoad},
    {"LinkAdd", false, kLoad},
    {"LinkComplete", false, kLoad},
});

// cudaMemcpy, cuMemcpyHtoD_v2, hipMemcpy: what is behind the maker's prefix; nothing for other names.
std::string_view verb_of(std::string_view name) {
  for (const std::string_view maker : {"cuda", "cu", "hip"}) {
    if (!name.starts_with(maker)) continue;
    const std::string_view verb = name.substr(maker.size());
    if (!verb.empty() && verb.front() >= 'A' && verb.front() <= 'Z') return verb;
  }
  return {};
}

}  // namespace

CallKind kind_of_call(std::string_view name) {
  const std::string_view verb = verb_of(name);
  if (verb.empty()) return {};
  if (verb.starts_with("Memcpy") && contains(verb, "Async")) return kCopy;
  for (const Row& row : kRows) {
    if (row.whole ? verb == row.verb : verb.starts_with(row.verb)) return row.kind;
  }
  return {};
}

}  // namespace foretrace::graph
