#pragma once
// What of a compiled program's tensors grows with the batch.

#include <algorithm>
#include <cstdint>
#include <vector>

namespace foretrace::trace {

/// Of a tensor, which of its dimensions grow; of a tuple, those of its parts.
struct Growth {
  std::vector<char> dims;
  std::vector<Growth> parts;

  [[nodiscard]] bool any() const {
    return std::find(dims.begin(), dims.end(), 1) != dims.end() ||
           std::any_of(parts.begin(), parts.end(), [](const Growth& p) { return p.any(); });
  }
  /// Of a tuple: some of it grows, and some does not.
  [[nodiscard]] bool partly() const {
    return any() && std::any_of(parts.begin(), parts.end(), [](const Growth& p) { return !p.any(); });
  }
  [[nodiscard]] bool at(std::int64_t d) const {
    return d >= 0 && d < static_cast<std::int64_t>(dims.size()) && dims[static_cast<std::size_t>(d)] != 0;
  }
  void set(std::int64_t d) {
    if (d >= 0 && d < static_cast<std::int64_t>(dims.size())) dims[static_cast<std::size_t>(d)] = 1;
  }
  void join(const Growth& other) {
    for (std::size_t i = 0; i < std::min(dims.size(), other.dims.size()); ++i) dims[i] |= other.dims[i];
    for (std::size_t i = 0; i < std::min(parts.size(), other.parts.size()); ++i) parts[i].join(other.parts[i]);
  }
};

}  // namespace foretrace::trace
