#include "recording.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <new>

#include "capture.hpp"
#include "decode.hpp"
#include "output.hpp"
#include "trace_json.hpp"

namespace foretrace::inject {
namespace {

// CUPTI asks for a buffer, fills it and hands it back; with none to give, it counts what it drops. 32 of 4 MiB hold about half a
// million records on their way.
constexpr std::size_t kBufferBytes = 4u << 20;
constexpr std::size_t kMostBuffers = 32;
constexpr std::size_t kAlignment = 8;
constexpr std::uint32_t kFlushMs = 500;
// 160 bytes each: 320 MB at most.
constexpr std::size_t kUsualRecords = 2'000'000;

/// What is listened to, by the names that FORETRACE_CUDA_WITHOUT leaves out.
struct Listened {
  CUpti_ActivityKind kind;
  std::string_view name;
};
constexpr Listened kListened[] = {
    {CUPTI_ACTIVITY_KIND_DEVICE, "devices"},    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "kernels"},
    {CUPTI_ACTIVITY_KIND_MEMCPY, "copies"},     {CUPTI_ACTIVITY_KIND_MEMCPY2, "copies"},
    {CUPTI_ACTIVITY_KIND_MEMSET, "fills"},      {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime"},
    {CUPTI_ACTIVITY_KIND_DRIVER, "driver"},     {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "waits"},
    {CUPTI_ACTIVITY_KIND_CUDA_EVENT, "events"}, {CUPTI_ACTIVITY_KIND_MARKER, "ranges"},
    {CUPTI_ACTIVITY_KIND_MEMORY2, "memory"},
};

/// Whether "a,b,c" holds the word.
bool holds(std::string_view list, std::string_view word) {
  while (!list.empty()) {
    const std::size_t end = std::min(list.find(','), list.size());
    if (list.substr(0, end) == word) return true;
    list.remove_prefix(std::min(end + 1, list.size()));
  }
  return false;
}

// The calls of is_idle_call that come most often: not recording them at all costs the program less.
constexpr CUpti_CallbackId kIdleRuntimeCalls[] = {
    CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020,          CUPTI_RUNTIME_TRACE_CBID_cudaSetDevice_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaGetLastError_v3020,       CUPTI_RUNTIME_TRACE_CBID_cudaPeekAtLastError_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventQuery_v3020,         CUPTI_RUNTIME_TRACE_CBID_cudaStreamIsCapturing_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaDeviceGetAttribute_v5000, CUPTI_RUNTIME_TRACE_CBID_cudaGetErrorString_v3020,
};
std::string text_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text != nullptr ? text : "";
}

Recording* running = nullptr;  // CUPTI's callbacks carry no pointer of ours

void CUPTIAPI buffer_requested(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  running->give_buffer(buffer, size, records);
}

void CUPTIAPI buffer_completed(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t,
                               std::size_t valid) {
  running->take_buffer(context, stream, buffer, valid);
}

}  // namespace

Settings settings_from_environment() {
  Settings out;
  out.output = text_of("FORETRACE_CUDA_OUTPUT");
  out.status = text_of("FORETRACE_RECORD_STATUS");
  out.without = text_of("FORETRACE_CUDA_WITHOUT");
  out.stands_aside = text_of("FORETRACE_CUDA") == "never";
  out.forced = text_of("FORETRACE_CUDA") == "always";
  const unsigned long long asked = std::strtoull(text_of("FORETRACE_CUDA_RECORDS").c_str(), nullptr, 10);
  out.most_records = asked > 0 ? static_cast<std::size_t>(asked) : kUsualRecords;
  return out;
}

Recording::Recording(Settings settings) : settings_(std::move(settings)) {
  free_buffers_.reserve(kMostBuffers);  // nothing may throw where CUPTI calls
}

bool Recording::begin() {
  std::string why;
  const std::optional<Cupti> cupti = find_cupti(why);
  if (!cupti) {
    tell(settings_.status, "the program's CUDA work was not recorded: " + why);
    return false;
  }
  cupti_ = *cupti;
  running = this;
  if (cupti_.register_callbacks(buffer_requested, buffer_completed) != CUPTI_SUCCESS) {
    tell(settings_.status, "the program's CUDA work was not recorded: another tool is already listening to CUPTI");
    return false;
  }
  // Calls and ranges by the system's number of a thread; CUPTI must know before the first record.
  if (cupti_.thread_id_type != nullptr) cupti_.thread_id_type(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  // NVTX loads what this variable names when its first range begins, and CUPTI passes ranges on.
  if (std::getenv("NVTX_INJECTION64_PATH") == nullptr) setenv("NVTX_INJECTION64_PATH", cupti_.path.c_str(), 0);
  std::uint64_t now = 0;
  if (cupti_.get_timestamp(&now) == CUPTI_SUCCESS) {
    const auto epoch = std::chrono::system_clock::now().time_since_epoch();
    epoch_offset_ns_ =
        std::chrono::duration_cast<std::chrono::nanoseconds>(epoch).count() - static_cast<std::int64_t>(now);
  }
  state_ = State::kRunning;
  enable_all();
  if (cupti_.flush_period != nullptr) cupti_.flush_period(kFlushMs);
  return true;
}

void Recording::enable_all() {
  for (const Listened& one : kListened) {
    const bool wanted = !holds(settings_.without, one.name);
    if (wanted && cupti_.enable(one.kind) == CUPTI_SUCCESS) continue;  // one a version lacks is not there
    if (!holds(left_out_, one.name)) left_out_ += (left_out_.empty() ? "" : ",") + std::string(one.name);
  }
  // Where a version cannot leave calls out, they are left out when they are read.
  if (cupti_.enable_runtime_api != nullptr && !holds(settings_.without, "runtime")) {
    for (const CUpti_CallbackId call : kIdleRuntimeCalls) cupti_.enable_runtime_api(call, 0);
  }
  if (cupti_.enable_driver_api != nullptr && !holds(settings_.without, "driver")) leave_out_driver_calls();
}

/// CUDA's runtime is made of driver calls, some of them with every launch: only those that programs wait for stay.
void Recording::leave_out_driver_calls() {
  for (CUpti_CallbackId call = 1; call < CUPTI_DRIVER_TRACE_CBID_SIZE; ++call) {
    const char* name = nullptr;
    if (cupti_.callback_name(CUPTI_CB_DOMAIN_DRIVER_API, call, &name) != CUPTI_SUCCESS || name == nullptr) continue;
    if (!is_driver_work(name)) cupti_.enable_driver_api(call, 0);
  }
}

void Recording::disable_all() {
  for (const Listened& one : kListened) cupti_.disable(one.kind);
}

void Recording::give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records) {
  *buffer = nullptr;
  *size = 0;
  *records = 0;
  const std::scoped_lock lock(buffers_mutex_);
  if (!free_buffers_.empty()) {
    *buffer = free_buffers_.back();
    free_buffers_.pop_back();
  } else if (buffers_made_ < kMostBuffers) {
    *buffer = static_cast<std::uint8_t*>(std::aligned_alloc(kAlignment, kBufferBytes));
    if (*buffer != nullptr) ++buffers_made_;
  }
  if (*buffer != nullptr) *size = kBufferBytes;
}

void Recording::count_dropped(CUcontext context, std::uint32_t stream) {
  std::size_t dropped = 0;
  if (cupti_.dropped_records(context, stream, &dropped) != CUPTI_SUCCESS || dropped == 0) return;
  const std::scoped_lock lock(activities_mutex_);
  activities_.dropped_cupti += dropped;
}

void Recording::take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t valid) {
  if (buffer != nullptr && valid > 0) {
    const std::scoped_lock lock(activities_mutex_);
    CUpti_Activity* record = nullptr;
    while (cupti_.next_record(buffer, valid, &record) == CUPTI_SUCCESS) {
      if (activities_.records.size() >= settings_.most_records) {
        ++activities_.dropped_full;
        continue;
      }
      try {
        decode(*record, cupti_, activities_);
      } catch (const std::bad_alloc&) {  // the program may need all the memory there is
        ++activities_.dropped_full;
        settings_.most_records = activities_.records.size();
      }
    }
  }
  count_dropped(context, stream);
  if (buffer != nullptr) {
    const std::scoped_lock lock(buffers_mutex_);
    free_buffers_.push_back(buffer);
  }
}

void Recording::finish() {
  State expected = State::kRunning;
  if (!state_.compare_exchange_strong(expected, State::kOver)) return;
  cupti_.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  count_dropped(nullptr, 0);  // what was dropped behind the last buffer
  disable_all();
  try {
    write();
  } catch (const std::bad_alloc&) {
    tell(settings_.status, "the program's CUDA work was not recorded: there was not enough memory to write it");
  }
}

void Recording::write() {
  const std::scoped_lock lock(activities_mutex_);
  keep_captured(activities_);
  const bool worked = std::any_of(activities_.records.begin(), activities_.records.end(), [](const Record& r) {
    return r.kind == Kind::kKernel || r.kind == Kind::kMemcpy || r.kind == Kind::kMemset;
  });
  if (!worked) {
    tell(settings_.status,
         "the program initialised CUDA, but CUPTI reported no work on a GPU (may this user profile? another "
         "tool may be listening)",
         true);
    return;
  }
  Surroundings where;
  where.process = static_cast<std::uint64_t>(getpid());
  where.epoch_offset_ns = epoch_offset_ns_;
  where.cupti_version = cupti_.version;
  where.left_out = left_out_;
  where.rank = environment_rank();
  where.world_size = environment_world_size();
  const std::string path = own_path(settings_.output, settings_.status);
  const bool written = write_whole(path, [&](const auto& put) { return write_trace(activities_, where, put); });
  if (!written) {
    tell(settings_.status, "the recording of CUDA's work could not be written to " + path);
    return;
  }
  tell_file(settings_.status, path);
  if (const std::uint64_t dropped = activities_.dropped_full + activities_.dropped_cupti; dropped > 0) {
    tell(settings_.status, std::to_string(dropped) + " records of CUDA's work were dropped (" +
                               std::to_string(activities_.dropped_full) + " behind the " +
                               std::to_string(settings_.most_records) + " that FORETRACE_CUDA_RECORDS allows, " +
                               std::to_string(activities_.dropped_cupti) + " by CUPTI)");
  }
}

}  // namespace foretrace::inject
