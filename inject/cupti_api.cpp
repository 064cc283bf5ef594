#include "cupti_api.hpp"

#include <dlfcn.h>
#include <link.h>

#include <cstdlib>
#include <string_view>
#include <vector>

namespace foretrace::inject {
namespace {

std::vector<std::string> loaded_libraries() {
  std::vector<std::string> paths;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        if (info->dlpi_name != nullptr && *info->dlpi_name != '\0') {
          static_cast<std::vector<std::string>*>(to)->emplace_back(info->dlpi_name);
        }
        return 0;
      },
      &paths);
  return paths;
}

/// Where CUPTI may lie, the likeliest first: named by the user, loaded already, next to the CUDA runtime that the program uses (in
/// wheels and in toolkits), on the loader's path, in the usual place.
std::vector<std::string> candidates() {
  std::vector<std::string> paths;
  if (const char* named = std::getenv("FORETRACE_CUPTI"); named != nullptr && *named != '\0') return {named};
  const std::vector<std::string> loaded = loaded_libraries();
  for (const std::string& path : loaded) {
    if (path.find("libcupti.so") != std::string::npos) paths.push_back(path);
  }
  static constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"};
  for (const std::string& path : loaded) {
    if (path.find("libcudart.so") == std::string::npos) continue;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    for (const char* relative : {"", "../../cuda_cupti/lib/", "../extras/CUPTI/lib64/"}) {
      for (const char* name : kNames) paths.push_back(folder + relative + name);
    }
  }
  for (const char* name : kNames) paths.emplace_back(name);
  for (const char* home : std::initializer_list<const char*>{std::getenv("CUDA_HOME"), "/usr/local/cuda"}) {
    if (home != nullptr) paths.push_back(std::string(home) + "/extras/CUPTI/lib64/libcupti.so");
  }
  return paths;
}

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

bool is_loaded(const char* part) {
  for (const std::string& path : loaded_libraries()) {
    if (path.find(part) != std::string::npos) return true;
  }
  return false;
}

std::optional<Cupti> find_cupti(std::string& why) {
  void* library = nullptr;
  Cupti cupti;
  for (const std::string& path : candidates()) {
    library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library != nullptr) {
      cupti.path = path;
      break;
    }
  }
  if (library == nullptr) {
    why = "CUPTI was not found; FORETRACE_CUPTI names the library (pip install nvidia-cuda-cupti has it)";
    return std::nullopt;
  }
  const bool complete =
      find(library, "cuptiGetVersion", cupti.get_version) && find(library, "cuptiGetTimestamp", cupti.get_timestamp) &&
      find(library, "cuptiActivityRegisterCallbacks", cupti.register_callbacks) &&
      find(library, "cuptiActivityEnable", cupti.enable) && find(library, "cuptiActivityDisable", cupti.disable) &&
      find(library, "cuptiActivityFlushAll", cupti.flush_all) &&
      find(library, "cuptiActivityGetNextRecord", cupti.next_record) &&
      find(library, "cuptiActivityGetNumDroppedRecords", cupti.dropped_records) &&
      find(library, "cuptiGetCallbackName", cupti.callback_name);
  if (!complete || cupti.get_version(&cupti.version) != CUPTI_SUCCESS) {
    why = cupti.path + " lacks functions that are needed";
    return std::nullopt;
  }
  find(library, "cuptiActivityFlushPeriod", cupti.flush_period);
  find(library, "cuptiSetThreadIdType", cupti.thread_id_type);
  find(library, "cuptiActivityEnableRuntimeApi", cupti.enable_runtime_api);
  find(library, "cuptiActivityEnableDriverApi", cupti.enable_driver_api);
  return cupti;
}

}  // namespace foretrace::inject
