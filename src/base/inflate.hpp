#pragma once
// gzip (isa-l) and zstd as byte sources over another source.

#include <memory>

#include "base/byte_source.hpp"

namespace foretrace {

/// Several members one after another are one stream; zero padding after the last is ignored.
Result<std::unique_ptr<ByteSource>> inflate_gzip(std::unique_ptr<ByteSource> compressed);
/// Several frames one after another are one stream.
Result<std::unique_ptr<ByteSource>> inflate_zstd(std::unique_ptr<ByteSource> compressed);

}  // namespace foretrace
