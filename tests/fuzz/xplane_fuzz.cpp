// XLA's profiles on arbitrary bytes: messages, compiled programs, the matching of kernels with them.

#include <cstdint>
#include <string>

#include "fuzz/format_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  foretrace::fuzz::check_format(bytes, (data[0] & 1) != 0);
  // The same as the first plane of a file, so that recognition does not stand in the way.
  std::string plane("\x12\x0d/device:GPU:0", 15);
  plane += bytes;
  std::string file = "\n";
  for (std::size_t n = plane.size();; n >>= 7) {
    file += static_cast<char>(n > 127 ? (n & 127) | 128 : n);
    if (n < 128) break;
  }
  foretrace::fuzz::check_format(file + plane, (data[0] & 2) != 0);
  return 0;
}
