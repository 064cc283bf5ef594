// A CUPTI without a GPU: when it is told to flush, it fills the buffers it asks for with the records of a small training, made up
// here, and hands them back. FAKE_CUPTI_REPEATS: how often; FAKE_CUPTI_DROPPED: records it says it lost.
#include <cupti.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

namespace {

CUpti_BuffersCallbackRequestFunc request = nullptr;
CUpti_BuffersCallbackCompleteFunc complete = nullptr;

std::uint8_t* buffer = nullptr;
std::size_t room = 0, used = 0;

std::size_t size_of(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return sizeof(CUpti_ActivityDevice5);
    default:
      return 0;
  }
}

std::size_t padded(std::size_t size) { return (size + 7) & ~std::size_t{7}; }

void hand_back() {
  if (buffer != nullptr) complete(nullptr, 0, buffer, room, used);
  buffer = nullptr;
  used = room = 0;
}

template <typename T>
void put(const T& record) {
  if (buffer != nullptr && used + padded(sizeof record) > room) hand_back();
  if (buffer == nullptr) {
    std::size_t most = 0;
    request(&buffer, &room, &most);
  }
  if (buffer == nullptr) return;
  std::memcpy(buffer + used, &record, sizeof record);
  used += padded(sizeof record);
}

template <typename T>
T made(CUpti_ActivityKind kind) {
  T record;
  std::memset(&record, 0, sizeof record);
  record.kind = kind;
  return record;
}

constexpr std::uint64_t kBegin = 1'000'000'000;

void call(std::uint64_t at, std::uint32_t id, CUpti_CallbackId cbid) {
  auto r = made<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  r.cbid = cbid;
  r.start = at;
  r.end = at + 4000;
  r.threadId = 77;
  r.correlationId = id;
  put(r);
}

void kernel(std::uint64_t at, std::uint64_t end, std::uint32_t id, std::uint32_t stream, const char* name) {
  auto r = made<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  r.start = at;
  r.end = end;
  r.contextId = 1;
  r.streamId = stream;
  r.correlationId = id;
  r.name = name;
  r.gridX = 12;
  r.gridY = r.gridZ = 1;
  r.blockX = 256;
  r.blockY = r.blockZ = 1;
  r.registersPerThread = 40;
  r.staticSharedMemory = 100;
  r.dynamicSharedMemory = 1024;
  put(r);
}

void range(std::uint64_t at, std::uint32_t id, bool begins, const char* name) {
  auto r = made<CUpti_ActivityMarker2>(CUPTI_ACTIVITY_KIND_MARKER);
  r.flags = begins ? CUPTI_ACTIVITY_FLAG_MARKER_START : CUPTI_ACTIVITY_FLAG_MARKER_END;
  r.timestamp = at;
  r.id = id;
  r.objectId.pt.threadId = 77;
  r.name = name;
  put(r);
}

/// A step: an operation launches a kernel and records an event; another stream waits for it, copies, and the host waits.
void step(std::uint64_t number) {
  const std::uint64_t at = kBegin + number * 1'000'000;
  const auto id = static_cast<std::uint32_t>(number * 10 + 1), r = static_cast<std::uint32_t>(number * 4 + 1);
  range(at, r, true, "step");
  range(at + 1000, r + 1, true, "aten::addmm, seq = 3, op_id = 7, sizes = [[10], [64, 512], [512, 10]]");
  call(at + 2000, id, CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000);
  range(at + 7000, r + 1, false, nullptr);
  if (std::getenv("FAKE_CUPTI_UNTIMED") != nullptr) {
    kernel(0, 0, id, 7, "_Z4gemmPfS_");  // as CUPTI does with what it could not time
  } else {
    kernel(at + 10'000, at + 210'000, id, 7, "_Z4gemmPfS_");
  }
  call(at + 8000, id + 1, CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020);
  auto event = made<CUpti_ActivityCudaEvent2>(CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  event.correlationId = id + 1;
  event.contextId = 1;
  event.streamId = 7;
  event.eventId = 5;
  event.cudaEventSyncId = 100 + number;
  put(event);
  call(at + 13'000, id + 2, CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020);
  auto wait = made<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  wait.start = at + 13'000;
  wait.end = at + 13'500;
  wait.correlationId = id + 2;
  wait.contextId = 1;
  wait.streamId = 13;
  wait.cudaEventId = 5;
  wait.cudaEventSyncId = 100 + number;
  put(wait);
  call(at + 18'000, id + 3, CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020);
  auto copy = made<CUpti_ActivityMemcpy6>(CUPTI_ACTIVITY_KIND_MEMCPY);
  copy.start = at + 215'000;
  copy.end = at + 315'000;
  copy.bytes = 4096;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.contextId = 1;
  copy.streamId = 13;
  copy.correlationId = id + 3;
  put(copy);
  auto set = made<CUpti_ActivityMemset4>(CUPTI_ACTIVITY_KIND_MEMSET);
  set.start = at + 320'000;
  set.end = at + 330'000;
  set.bytes = 64;
  set.contextId = 1;
  set.streamId = 7;
  set.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  set.correlationId = id + 4;
  call(at + 23'000, id + 4, CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020);
  put(set);
  auto graph = made<CUpti_ActivityKernel10>(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  call(at + 28'000, id + 5, CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000);
  graph.start = at + 340'000;
  graph.end = at + 440'000;
  graph.contextId = 1;
  graph.streamId = 7;
  graph.correlationId = id + 5;
  graph.graphId = 9;
  graph.graphNodeId = (std::uint64_t{9} << 32) + 3;
  graph.name = "in_a_graph";
  graph.gridX = graph.gridY = graph.gridZ = graph.blockX = graph.blockY = graph.blockZ = 1;
  put(graph);
  auto api = made<CUpti_ActivityAPI>(CUPTI_ACTIVITY_KIND_RUNTIME);
  api.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020;
  api.start = at + 33'000;
  api.end = at + 450'000;
  api.threadId = 77;
  api.correlationId = id + 6;
  put(api);
  auto sync = made<CUpti_ActivitySynchronization2>(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  sync.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  sync.start = at + 33'500;
  sync.end = at + 449'000;
  sync.correlationId = id + 6;
  sync.contextId = 1;
  sync.streamId = 7;
  put(sync);
  call(at + 460'000, id + 7, CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020);  // nobody waits for it: left out
  auto memory = made<CUpti_ActivityMemory4>(CUPTI_ACTIVITY_KIND_MEMORY2);
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  memory.address = 0x7000;
  memory.bytes = 512;
  memory.timestamp = at + 470'000;
  put(memory);
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  memory.timestamp = at + 471'000;
  put(memory);
  range(at + 480'000, r, false, nullptr);
}

std::uint64_t number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : 0;
}

}  // namespace

extern "C" {

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = CUPTI_API_VERSION;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetTimestamp(uint64_t* at) {
  *at = kBegin;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc r, CUpti_BuffersCallbackCompleteFunc c) {
  request = r;
  complete = c;
  return std::getenv("FAKE_CUPTI_TAKEN") != nullptr ? CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED : CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityDisable(CUpti_ActivityKind) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityFlushAll(uint32_t) {
  auto device = made<CUpti_ActivityDevice5>(CUPTI_ACTIVITY_KIND_DEVICE);
  device.name = "NVIDIA Pretended \"GPU\"";
  device.numMultiprocessors = 132;
  device.computeCapabilityMajor = 9;
  device.globalMemorySize = 1u << 30;
  device.numThreadsPerWarp = 32;
  put(device);
  for (std::uint64_t i = 0; i < number_of("FAKE_CUPTI_REPEATS"); ++i) step(i);
  hand_back();
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNextRecord(uint8_t* from, size_t valid, CUpti_Activity** record) {
  std::uint8_t* next = from;
  if (*record != nullptr) {
    next = reinterpret_cast<std::uint8_t*>(*record);
    next += padded(size_of((*record)->kind));
  }
  if (next >= from + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext, uint32_t, size_t* dropped) {
  static bool told = false;  // the count begins anew when it has been asked for
  *dropped = told ? 0 : number_of("FAKE_CUPTI_DROPPED");
  told = true;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain, uint32_t cbid, const char** name) {
  switch (cbid) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000:
      *name = "cudaLaunchKernel_v7000";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020:
      *name = "cudaEventRecord_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020:
      *name = "cudaStreamWaitEvent_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020:
      *name = "cudaMemcpyAsync_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020:
      *name = "cudaMemsetAsync_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000:
      *name = "cudaGraphLaunch_v10000";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020:
      *name = "cudaStreamSynchronize_v3020";
      break;
    case CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020:
      *name = "cudaGetDevice_v3020";
      break;
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return CUPTI_SUCCESS;
}
}
