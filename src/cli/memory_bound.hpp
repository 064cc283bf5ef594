#pragma once
// A bound on the memory a command may take, so that a hostile or huge file causes an error instead of an unresponsive machine.

#include <sys/resource.h>

#include <cstdint>
#include <optional>
#include <string>

namespace foretrace::cli {

/// What the machine, or the container this runs in, has left; nothing where that is not known.
std::optional<std::uint64_t> available_memory();

/// As long as it lives, the process gets no more than `gb` (10^9 bytes) on top of what it has already; without a number, no more than the
/// machine has left. Memory beyond that is refused, which is std::bad_alloc.
class MemoryBound {
 public:
  explicit MemoryBound(std::optional<double> gb);
  MemoryBound(const MemoryBound&) = delete;
  MemoryBound& operator=(const MemoryBound&) = delete;
  ~MemoryBound();

  /// "the bound of 2.0 GB"; "what the machine has" where there is no bound.
  [[nodiscard]] std::string text() const;

 private:
  std::optional<std::uint64_t> bytes_;
  std::optional<rlimit> before_;
};

}  // namespace foretrace::cli
