#pragma once
// Bytes that can be read from anywhere: what a database or a file of nested messages needs. A file and memory are read in
// place; what comes as a stream (standard input, gzip, zstd) is stored once, in memory while it is small and else in an
// unnamed temporary file, so that memory stays bounded whatever the size of the input.

#include <cstdint>
#include <memory>
#include <optional>

#include "base/byte_source.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace {

class SeekableSource {
 public:
  virtual ~SeekableSource() = default;
  [[nodiscard]] virtual std::uint64_t size() const = 0;
  /// Fills `out` with up to n bytes from `offset` on; less than n only at the end of the input.
  virtual Result<std::size_t> read_at(std::uint64_t offset, char* out, std::size_t n) = 0;

  /// Why the input ended before its end (a cut gzip); what came before can be read.
  std::optional<Error> damage;
};

/// The whole of `source`, from its beginning: in place where it can be, laid down where not. The source must outlive it.
Result<std::unique_ptr<SeekableSource>> make_seekable(ByteSource& source);

}  // namespace foretrace
