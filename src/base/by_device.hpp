#pragma once
// What is read from the tables of a device, once for each device that is asked for.
//
//   Figures read_figures(const DataFiles& files, std::string_view device);   // from files.measured(folder, device)
//   by_device<read_figures>("A100-SXM4-80GB").start_us                       // of its own table, else of the reference device's

#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/data_files.hpp"

namespace foretrace {

/// What `kRead` makes of the tables compiled in, for a device's name. It stays where it is as long as the program runs.
template <auto kRead>
const auto& by_device(std::string_view device) {
  using Read = decltype(kRead(DataFiles::shipped(), device));
  static std::mutex mutex;
  static std::map<std::string, Read, std::less<>> read;
  const std::lock_guard lock(mutex);
  const auto it = read.find(device);
  return it != read.end() ? it->second : read.emplace(device, kRead(DataFiles::shipped(), device)).first->second;
}

}  // namespace foretrace
