#include "cli/memory_bound.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <limits>

namespace foretrace::cli {

namespace {

// The number behind "NAME:" in a file of /proc, in kB there.
std::optional<std::uint64_t> kilobytes_in(const char* path, std::string_view name) {
  std::ifstream file(path);
  std::string word;
  while (file >> word) {
    std::uint64_t number = 0;
    if (word == name && file >> number) return number * 1024;
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

// A file that holds one number; "max" is none.
std::optional<std::uint64_t> number_in(const char* path) {
  std::ifstream file(path);
  std::uint64_t number = 0;
  return file >> number ? std::optional(number) : std::nullopt;
}

}  // namespace

std::optional<std::uint64_t> available_memory() {
  std::optional<std::uint64_t> least = kilobytes_in("/proc/meminfo", "MemAvailable:");
  struct Group {
    const char* limit;
    const char* used;
  };
  constexpr Group kGroups[] = {
      {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
      {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};
  for (const Group& group : kGroups) {
    const auto limit = number_in(group.limit);
    if (!limit) continue;
    const std::uint64_t left = *limit - std::min(*limit, number_in(group.used).value_or(0));
    least = std::min(least.value_or(left), left);
  }
  return least;
}

MemoryBound::MemoryBound(std::optional<double> gb)
    : bytes_(gb ? std::optional(static_cast<std::uint64_t>(std::min(*gb, 1e9) * 1e9)) : available_memory()) {
  rlimit now{};
  if (!bytes_ || getrlimit(RLIMIT_DATA, &now) != 0) return;
  // Private memory that can be written, which is what fills a machine; files that are mapped do not count.
  const std::uint64_t wanted = *bytes_ + kilobytes_in("/proc/self/status", "VmData:").value_or(0);
  if (now.rlim_cur != RLIM_INFINITY && now.rlim_cur <= wanted) return;
  before_ = now;
  now.rlim_cur = now.rlim_max == RLIM_INFINITY ? wanted : std::min<std::uint64_t>(wanted, now.rlim_max);
  if (setrlimit(RLIMIT_DATA, &now) != 0) before_.reset();
}

MemoryBound::~MemoryBound() {
  if (before_) setrlimit(RLIMIT_DATA, &*before_);
}

std::string MemoryBound::text() const {
  constexpr double kGb = 1e9;
  return before_ ? fmt::format("the bound of {:.1f} GB", static_cast<double>(*bytes_) / kGb) : "what the machine has";
}

}  // namespace foretrace::cli
