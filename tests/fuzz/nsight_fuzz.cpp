// Nsight Systems' databases on arbitrary bytes. A whole database hardly ever comes of them, so that most inputs are a real
// one (the seeds, kept from input to input) with some of its bytes changed: byte pairs are places and values. Bit 1 of the first
// byte tells which.

#include <array>
#include <cstdint>
#include <string>

#include "fuzz/format_checks.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  static std::array<std::string, 2> seeds;
  std::string& whole = seeds[(data[0] >> 1) & 1];
  if (bytes.starts_with("SQLite format 3")) {
    if (whole.empty()) whole = bytes;
    foretrace::fuzz::check_format(bytes, (data[0] & 1) != 0);
    return 0;
  }
  if (whole.empty()) return 0;
  std::string changed = whole;
  for (std::size_t i = 0; i + 3 < bytes.size(); i += 4) {
    const auto at = static_cast<std::size_t>(static_cast<unsigned char>(bytes[i])) |
                    static_cast<std::size_t>(static_cast<unsigned char>(bytes[i + 1])) << 8 |
                    static_cast<std::size_t>(static_cast<unsigned char>(bytes[i + 2])) << 16;
    changed[at % changed.size()] = bytes[i + 3];
  }
  foretrace::fuzz::check_format(changed, (data[0] & 1) != 0);
  return 0;
}
