#pragma once
// Sets of parameters of a law, by kind of work, architecture and file. A file named after a device holds parameters measured
// on it; others hold parameters fitted to many devices.

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/data_files.hpp"
#include "foretrace/hardware/device.hpp"
#include "hardware/architecture.hpp"

namespace foretrace::hardware {

/// The device a file is named after; empty for a file of many devices.
inline std::string_view device_of(const DataFile& file, const DataFiles& files) {
  for (const DataFile& device : files.in("hardware/devices", ".toml")) {
    if (device.stem() == file.device()) return file.device();
  }
  return {};
}

template <class Weights>
class ParameterSets {
 public:
  explicit ParameterSets(const DataFiles& files = DataFiles::shipped()) : files_(files) {}
  /// One set, made where there is none. `device` is empty for a file of many devices.
  Weights& at(std::string_view kind, std::string_view architecture, std::string_view device) {
    std::vector<Set>& sets = sets_[std::string(kind)];
    for (Set& one : sets) {
      if (one.architecture == architecture && one.device == device) return one.weights;
    }
    return sets.emplace_back(Set{std::string(architecture), std::string(device), {}}).weights;
  }
  /// The set of the device's architecture, else of the nearest measured one, else of any; of several, what was measured on the
  /// device, then on the reference device, then what was fitted to many. Null: no such kind.
  [[nodiscard]] const Weights* find(std::string_view kind, const Device& d) const {
    const auto it = sets_.find(kind);
    if (it == sets_.end()) return nullptr;
    const Architecture& architecture = architecture_of(d);
    const std::array<std::string_view, 3> architectures = {architecture.laws, architecture.nearest, "any"};
    const std::array<std::string_view, 3> devices = {d.name, files_.reference_device(), ""};
    const Weights* best = nullptr;
    std::size_t least = architectures.size() * devices.size();
    for (const Set& one : it->second) {
      const std::size_t a = rank(architectures, one.architecture), b = rank(devices, one.device);
      if (a == architectures.size() || b == devices.size() || a * devices.size() + b >= least) continue;
      least = a * devices.size() + b;
      best = &one.weights;
    }
    return best;
  }
  /// Whether the kind has a set for this architecture itself.
  [[nodiscard]] bool has(std::string_view kind, std::string_view architecture) const {
    const auto it = sets_.find(kind);
    return it != sets_.end() && std::any_of(it->second.begin(), it->second.end(),
                                            [&](const Set& one) { return one.architecture == architecture; });
  }

 private:
  struct Set {
    std::string architecture, device;
    Weights weights;
  };
  template <class Names>
  static std::size_t rank(const Names& names, std::string_view name) {
    return static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
  }

  std::map<std::string, std::vector<Set>, std::less<>> sets_;
  DataFiles files_;
};

}  // namespace foretrace::hardware
