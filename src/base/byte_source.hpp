#pragma once
// Where bytes come from: a file, standard input or memory, decompressed on the fly when they are gzip or zstd. Importers
// see one interface.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"

namespace foretrace {

class SeekableSource;

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  /// Fills `out` with up to n bytes; less than n only at the end of the input, 0 once it is reached. A damaged input
  /// yields what came before the damage first, then the error.
  virtual Result<std::size_t> read(char* out, std::size_t n) = 0;
  /// Bytes of the underlying (compressed) input consumed and in all (0 when unknown), for progress.
  [[nodiscard]] virtual std::uint64_t consumed() const = 0;
  [[nodiscard]] virtual std::uint64_t total() const = 0;
  /// Starts again from the beginning. False when the input cannot be read twice.
  virtual bool rewind() = 0;
  /// The same bytes, readable from anywhere, where they are so already: a file, memory. Null where they are inflated on
  /// the way or come from a pipe; seekable_source.hpp lays those down.
  virtual std::unique_ptr<SeekableSource> in_place();
};

/// Up to n bytes of an open file from `offset` on; less only at its end.
Result<std::size_t> read_descriptor(int fd, std::uint64_t offset, char* out, std::size_t n);

/// A file, or standard input for "-". Compression is recognised by content.
Result<std::unique_ptr<ByteSource>> open_source(const std::string& path);
/// Bytes in memory, which must outlive the source. Compression is recognised by content.
Result<std::unique_ptr<ByteSource>> memory_source(std::string_view bytes);

/// All bytes of a file, inflated: for what is no trace (devices, collectives, strategies, the text of a graph). More than
/// `most` bytes are an error, so that a file named by mistake does not fill the memory.
Result<std::string> read_file(const std::string& path, std::size_t most = std::size_t{1} << 30);

/// The first bytes (up to n) of a source, which afterwards still starts with them.
Result<std::string> peek(std::unique_ptr<ByteSource>& source, std::size_t n);

}  // namespace foretrace
