#pragma once
// CUPTI as the program has it, found at run time: nothing here links against CUDA.

#include <cupti.h>

#include <optional>
#include <string>

namespace foretrace::inject {

/// The functions that are called. Those that a version may lack are null there.
struct Cupti {
  std::string path;  ///< of the library, for NVTX to find it
  std::uint32_t version = 0;

  decltype(&cuptiGetVersion) get_version = nullptr;
  decltype(&cuptiGetTimestamp) get_timestamp = nullptr;
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityDisable) disable = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityGetNumDroppedRecords) dropped_records = nullptr;
  decltype(&cuptiGetCallbackName) callback_name = nullptr;

  decltype(&cuptiActivityFlushPeriod) flush_period = nullptr;
  decltype(&cuptiSetThreadIdType) thread_id_type = nullptr;
  decltype(&cuptiActivityEnableRuntimeApi) enable_runtime_api = nullptr;
  decltype(&cuptiActivityEnableDriverApi) enable_driver_api = nullptr;
};

/// nullopt when there is none, or one without a function that cannot be done without; `why` then says so.
std::optional<Cupti> find_cupti(std::string& why);

/// Whether a library whose path holds `part` is loaded into this process.
bool is_loaded(const char* part);

}  // namespace foretrace::inject
