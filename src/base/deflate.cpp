#include "base/deflate.hpp"

#include <isa-l/igzip_lib.h>

#include <algorithm>
#include <vector>

namespace foretrace {

Result<std::string> deflate_gzip(std::string_view text) {
  std::vector<std::uint8_t> work(ISAL_DEF_LVL2_DEFAULT);
  isal_zstream stream;
  isal_deflate_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.level = 2;
  stream.level_buf = work.data();
  stream.level_buf_size = static_cast<std::uint32_t>(work.size());
  std::string out;
  std::vector<std::uint8_t> buffer(1u << 20);
  // isa-l counts in 32 bits: large texts go through in parts.
  constexpr std::size_t kPart = 1u << 30;
  std::size_t at = 0;
  do {
    const std::size_t part = std::min(kPart, text.size() - at);
    // It reads the input only; its interface does not say so.
    stream.next_in = reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data() + at));
    stream.avail_in = static_cast<std::uint32_t>(part);
    at += part;
    stream.end_of_stream = at == text.size() ? 1 : 0;
    do {
      stream.next_out = buffer.data();
      stream.avail_out = static_cast<std::uint32_t>(buffer.size());
      if (isal_deflate(&stream) != COMP_OK) return fail(ErrorCode::kInternal, "gzip failed");
      out.append(reinterpret_cast<const char*>(buffer.data()), buffer.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (at < text.size());
  return out;
}

}  // namespace foretrace
