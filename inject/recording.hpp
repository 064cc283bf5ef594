#pragma once
// The recording of one process: buffers for CUPTI, the activities kept, and the file at the end.

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "cupti_api.hpp"
#include "records.hpp"

namespace foretrace::inject {

struct Settings {
  std::string output;         ///< FORETRACE_CUDA_OUTPUT
  std::string status;         ///< FORETRACE_RECORD_STATUS; empty: nobody waits
  std::size_t most_records;   ///< FORETRACE_CUDA_RECORDS
  std::string without;        ///< FORETRACE_CUDA_WITHOUT: kinds of records nobody wants, "driver,memory"
  bool stands_aside = false;  ///< FORETRACE_CUDA=never: this process has a profiler of its own
  bool forced = false;        ///< FORETRACE_CUDA=always: also where a framework brings a profiler of its own
};

/// As the environment says; an empty output: nothing is to be recorded.
Settings settings_from_environment();

class Recording {
 public:
  explicit Recording(Settings settings);

  /// Finds CUPTI and begins. False: nothing is recorded, and what kept it from that has been said.
  bool begin();
  /// Ends the recording and writes the file; once, whoever calls first. Nothing when nothing ran on a GPU.
  void finish();
  /// This process is a copy made by fork: it owns nothing.
  void forget() { state_ = State::kOver; }

  // What CUPTI calls.
  void give_buffer(std::uint8_t** buffer, std::size_t* size, std::size_t* records);
  void take_buffer(CUcontext context, std::uint32_t stream, std::uint8_t* buffer, std::size_t valid);

 private:
  enum class State { kNew, kRunning, kOver };

  void enable_all();
  void leave_out_driver_calls();
  void disable_all();
  void count_dropped(CUcontext context, std::uint32_t stream);
  void write();

  Settings settings_;
  Cupti cupti_;
  std::atomic<State> state_{State::kNew};
  std::int64_t epoch_offset_ns_ = 0;
  std::string left_out_;  // kinds of records that are not listened to
  std::mutex activities_mutex_;
  Activities activities_;
  std::mutex buffers_mutex_;
  std::vector<std::uint8_t*> free_buffers_;
  std::size_t buffers_made_ = 0;
};

}  // namespace foretrace::inject
