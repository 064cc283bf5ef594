#pragma once
// gzip and zstd of small texts, for tests and fuzz targets.

#include <isa-l/igzip_lib.h>
#include <zstd.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace foretrace::test {

/// One gzip member.
inline std::string gzip(std::string_view text) {
  std::string in(text);
  std::vector<std::uint8_t> out(in.size() + in.size() / 8 + 1024);
  isal_zstream stream;
  isal_deflate_stateless_init(&stream);
  stream.gzip_flag = IGZIP_GZIP;
  stream.end_of_stream = 1;
  stream.flush = NO_FLUSH;
  stream.next_in = reinterpret_cast<std::uint8_t*>(in.data());
  stream.avail_in = static_cast<std::uint32_t>(in.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<std::uint32_t>(out.size());
  if (isal_deflate_stateless(&stream) != COMP_OK) return {};
  return {reinterpret_cast<const char*>(out.data()), stream.total_out};
}

/// One zstd frame.
inline std::string zstd(std::string_view text) {
  std::string out(ZSTD_compressBound(text.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), text.data(), text.size(), 1));
  return out;
}

}  // namespace foretrace::test
