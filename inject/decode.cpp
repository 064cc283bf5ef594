#include "decode.hpp"

#include <algorithm>

#include "trace_json.hpp"

namespace foretrace::inject {
namespace {

// From CUDA 12.8 on, event records and waits carry a number that joins them.
constexpr std::uint32_t kJoinsEvents = 26;

template <typename T>
const T& as(const CUpti_Activity& activity) {
  return *reinterpret_cast<const T*>(&activity);
}

// CUPTI writes 0 for both ends of what it could not time.
void keep(Activities& to, const Record& record) {
  if (record.start == 0 && record.kind != Kind::kEvent) {
    ++to.untimed;
    return;
  }
  to.records.push_back(record);
}

Place place_of(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
      return Place::kPageable;
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return Place::kPinned;
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
      return Place::kDevice;
    case CUPTI_ACTIVITY_MEMORY_KIND_ARRAY:
      return Place::kArray;
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return Place::kManaged;
    default:
      return Place::kUnknown;
  }
}

/// What all records of work on a GPU have, under the same names.
template <typename T>
Record on_gpu(Kind kind, const T& r) {
  Record out;
  out.kind = kind;
  out.start = r.start;
  out.end = r.end;
  out.device = r.deviceId;
  out.context = r.contextId;
  out.stream = r.streamId;
  out.correlation = r.correlationId;
  out.graph = r.graphId;
  out.graph_node = r.graphNodeId;
  return out;
}

Record kernel(const CUpti_ActivityKernel10& r, Names& names) {
  Record out = on_gpu(Kind::kKernel, r);
  out.name = names.number(r.name != nullptr ? r.name : "");
  out.grid = {r.gridX, r.gridY, r.gridZ};
  out.block = {r.blockX, r.blockY, r.blockZ};
  out.registers = r.registersPerThread;
  out.shared_memory = static_cast<std::uint32_t>(r.staticSharedMemory + r.dynamicSharedMemory);
  return out;
}

template <typename T>
Record copy(const T& r) {
  Record out = on_gpu(Kind::kMemcpy, r);
  out.bytes = static_cast<std::int64_t>(r.bytes);
  out.from = place_of(r.srcKind);
  out.to = place_of(r.dstKind);
  return out;
}

Record sync(const CUpti_ActivitySynchronization2& r, std::uint32_t version) {
  Record out;
  out.kind = Kind::kSync;
  out.start = r.start;
  out.end = r.end;
  out.context = r.contextId;
  out.correlation = r.correlationId;
  switch (r.type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      out.sync = Sync::kEvent;
      break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT:
      out.sync = Sync::kStreamWaitEvent;
      break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      out.sync = Sync::kStream;
      break;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      out.sync = Sync::kContext;
      break;
    default:
      break;
  }
  if (r.streamId != CUPTI_SYNCHRONIZATION_INVALID_VALUE) out.stream = r.streamId;
  out.id = r.cudaEventId;
  if (version >= kJoinsEvents) out.event_record = r.cudaEventSyncId;
  return out;
}

Record event(const CUpti_ActivityCudaEvent2& r, std::uint32_t version) {
  Record out;
  out.kind = Kind::kEvent;
  out.context = r.contextId;
  out.stream = r.streamId;
  out.correlation = r.correlationId;
  out.id = r.eventId;
  if (version >= kJoinsEvents) out.event_record = r.cudaEventSyncId;
  return out;
}

Record range(const CUpti_ActivityMarker2& r, Names& names) {
  Record out;
  const auto flags = static_cast<unsigned>(r.flags);
  const bool begins = (flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0;
  const bool ends = (flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0;
  out.kind = begins ? Kind::kRangeBegin : ends ? Kind::kRangeEnd : Kind::kMark;
  out.start = out.end = r.timestamp;
  out.id = r.id;
  out.thread = r.objectId.pt.threadId;
  out.name = names.number(r.name != nullptr ? r.name : "");
  out.domain = names.number(r.domain != nullptr ? r.domain : "");
  return out;
}

Device device(const CUpti_ActivityDevice5& r) {
  Device out;
  out.id = r.id;
  out.name = r.name != nullptr ? r.name : "";
  out.memory = r.globalMemorySize;
  out.major = r.computeCapabilityMajor;
  out.minor = r.computeCapabilityMinor;
  out.multiprocessors = r.numMultiprocessors;
  out.warp = r.numThreadsPerWarp;
  out.threads_per_block = r.maxThreadsPerBlock;
  out.threads_per_multiprocessor = r.maxWarpsPerMultiprocessor * r.numThreadsPerWarp;
  out.registers_per_block = r.maxRegistersPerBlock;
  out.registers_per_multiprocessor = r.maxRegistersPerMultiprocessor;
  out.shared_per_block = r.maxSharedMemoryPerBlock;
  out.shared_per_multiprocessor = r.maxSharedMemoryPerMultiprocessor;
  return out;
}

void add_call(const CUpti_ActivityAPI& r, bool runtime, const Cupti& cupti, Activities& to) {
  const char* name = nullptr;
  const CUpti_CallbackDomain domain = runtime ? CUPTI_CB_DOMAIN_RUNTIME_API : CUPTI_CB_DOMAIN_DRIVER_API;
  if (cupti.callback_name(domain, r.cbid, &name) != CUPTI_SUCCESS || name == nullptr) name = "unknown call";
  if (is_idle_call(plain_api_name(name))) return;
  Record out;
  out.kind = runtime ? Kind::kRuntime : Kind::kDriver;
  out.name = to.names.number(name);
  out.start = r.start;
  out.end = r.end;
  out.id = r.cbid;
  out.correlation = r.correlationId;
  out.thread = r.threadId;
  keep(to, out);
}

void add_memory(const CUpti_ActivityMemory4& r, Activities& to) {
  if (r.memoryKind != CUPTI_ACTIVITY_MEMORY_KIND_DEVICE && r.memoryKind != CUPTI_ACTIVITY_MEMORY_KIND_MANAGED) return;
  const bool freed = r.memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  if (!freed && r.memoryOperationType != CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION) return;
  Record out;
  out.kind = Kind::kMemory;
  out.start = out.end = r.timestamp;
  out.device = r.deviceId;
  out.context = r.contextId;
  out.address = r.address;
  out.correlation = r.correlationId;
  out.bytes = freed ? -static_cast<std::int64_t>(r.bytes) : static_cast<std::int64_t>(r.bytes);
  keep(to, out);
}

}  // namespace

bool is_idle_call(std::string_view name) {
  static constexpr std::string_view kIdle[] = {
      "cudaGetDevice",
      "cudaSetDevice",
      "cudaGetLastError",
      "cudaPeekAtLastError",
      "cudaGetDeviceCount",
      "cudaEventCreate",
      "cudaEventQuery",
      "cudaStreamIsCapturing",
      "cudaDeviceGetAttribute",
      "cudaEventDestroy",
      "cudaEventCreateWithFlags",
      "cudaStreamGetCaptureInfo",
      "cudaFuncGetAttributes",
      "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
      "cudaOccupancyMaxActiveBlocksPerMultiprocessor",
      "cudaPointerGetAttributes",
      "cudaFuncSetAttribute",
      "cuCtxGetCurrent",
      "cuCtxSetCurrent",
      "cuCtxPushCurrent_v2",
      "cuCtxPopCurrent_v2",
      "cuDeviceGet",
      "cuDeviceGetAttribute",
      "cuDeviceGetCount",
      "cuGetProcAddress",
      "cuGetProcAddress_v2",
      "cuCtxGetDevice",
      "cuDevicePrimaryCtxGetState",
      "cuStreamIsCapturing",
      "cuDriverGetVersion",
      "cuKernelGetAttribute",
      "cuKernelGetFunction",
      "cuKernelGetName",
      "cuKernelSetAttribute",
      "cuGetErrorString",
      "cuGetErrorName",
      "cudaGetErrorString",
      "cuCtxGetLimit",
      "cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
      "cuOccupancyMaxActiveBlocksPerMultiprocessor",
      "cuOccupancyMaxActiveClusters",
      "cudaOccupancyMaxActiveClusters",
      "cuTensorMapEncodeTiled",
      "cuFuncGetAttribute",
  };
  return std::find(std::begin(kIdle), std::end(kIdle), name) != std::end(kIdle);
}

bool is_driver_work(std::string_view name) {
  static constexpr std::string_view kBeginnings[] = {
      "cuLaunch",
      "cuGraphLaunch",
      "cuGraphInstantiate",
      "cuMemcpy",
      "cuMemset",
      "cuMemAlloc",
      "cuMemFree",
      "cuMemHostAlloc",
      "cuMemHostRegister",
      "cuStreamSynchronize",
      "cuStreamWaitEvent",
      "cuEventRecord",
      "cuEventSynchronize",
      "cuCtxSynchronize",
      "cuProfiler",
      "cuModuleLoad",
      "cuLibraryLoad",
      "cuInit",
      "cuCtxCreate",
      "cuDevicePrimaryCtxRetain",
      "cuStreamBeginCapture",
      "cuStreamEndCapture",
  };
  return std::any_of(std::begin(kBeginnings), std::end(kBeginnings),
                     [&](std::string_view beginning) { return name.starts_with(beginning); });
}

void decode(const CUpti_Activity& activity, const Cupti& cupti, Activities& to) {
  switch (activity.kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      keep(to, kernel(as<CUpti_ActivityKernel10>(activity), to.names));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      keep(to, copy(as<CUpti_ActivityMemcpy6>(activity)));
      break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& r = as<CUpti_ActivityMemcpyPtoP4>(activity);
      Record out = copy(r);
      out.peer_from = r.srcDeviceId;
      out.peer_to = r.dstDeviceId;
      keep(to, out);
      break;
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& r = as<CUpti_ActivityMemset4>(activity);
      Record out = on_gpu(Kind::kMemset, r);
      out.bytes = static_cast<std::int64_t>(r.bytes);
      out.to = place_of(static_cast<std::uint8_t>(r.memoryKind));
      keep(to, out);
      break;
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      add_call(as<CUpti_ActivityAPI>(activity), true, cupti, to);
      break;
    case CUPTI_ACTIVITY_KIND_DRIVER:
      add_call(as<CUpti_ActivityAPI>(activity), false, cupti, to);
      break;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      keep(to, sync(as<CUpti_ActivitySynchronization2>(activity), cupti.version));
      break;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      keep(to, event(as<CUpti_ActivityCudaEvent2>(activity), cupti.version));
      break;
    case CUPTI_ACTIVITY_KIND_MARKER:
      keep(to, range(as<CUpti_ActivityMarker2>(activity), to.names));
      break;
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      add_memory(as<CUpti_ActivityMemory4>(activity), to);
      break;
    case CUPTI_ACTIVITY_KIND_DEVICE:
      to.devices.push_back(device(as<CUpti_ActivityDevice5>(activity)));
      break;
    default:
      break;
  }
}

}  // namespace foretrace::inject
