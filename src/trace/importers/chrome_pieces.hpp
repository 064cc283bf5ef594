#pragma once
// Cuts the events of a Chrome-style JSON trace into pieces of about 256 KiB on record boundaries, so that pieces can be
// parsed apart (simdjson is twice as fast on buffers that stay in the cache, and has a 4 GB limit on one document).
//
//   head:   everything up to the '[' of "traceEvents"; its other keys are metadata
//   pieces: records separated by commas, the commas between pieces removed
//   tail:   what follows the closing ']'; found while parsing and collected by the caller
//
// A boundary is '}' ',' '{' followed by a key that only an event starts with. In valid JSON that cannot be inside a
// string; it could be inside nested arguments, in which case the piece comes out incomplete and the import starts again
// with `Cut::kExact`, which counts brackets over every byte.

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_source.hpp"

namespace foretrace::trace {

enum class Cut : std::uint8_t { kFast, kExact };

struct Piece {
  std::vector<char> buffer;  ///< text, then at least SIMDJSON_PADDING bytes
  std::size_t length = 0;
  std::uint64_t offset = 0;  ///< of the first byte, in the uncompressed input
  std::uint64_t sequence = 0;
  bool last = false;  ///< the input ends with this piece
  [[nodiscard]] std::string_view text() const { return {buffer.data(), length}; }
};

class PieceReader {
 public:
  PieceReader(ByteSource& source, Cut cut) : source_(source), cut_(cut) {}

  /// Reads up to the first event. Fails when the input is empty, not JSON or holds no "traceEvents".
  Status read_head();
  /// Metadata keys met before the events, raw JSON.
  [[nodiscard]] std::vector<std::pair<std::string, std::string>>& head() { return head_; }
  /// True for a bare array of events without an enclosing object.
  [[nodiscard]] bool bare_array() const { return bare_array_; }

  /// The next piece, false when there is none. One caller at a time.
  bool next(Piece& piece);
  /// The source failed behind the last piece (truncated gzip, read error). The pieces before are good.
  [[nodiscard]] const Error* source_error() const { return failed_ ? &error_ : nullptr; }
  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  [[nodiscard]] const ByteSource& source() const { return source_; }

 private:
  std::size_t fill(char* out, std::size_t n);

  ByteSource& source_;
  Cut cut_;
  std::string carry_;         // read but not yet handed out
  std::uint64_t offset_ = 0;  // of carry_'s first byte
  std::uint64_t sequence_ = 0;
  bool at_end_ = false;
  bool finished_ = false;
  bool bare_array_ = false;
  bool failed_ = false;
  Error error_;
  std::vector<std::pair<std::string, std::string>> head_;
};

/// Parses `"key": value, …` pairs of a top-level object from `text`, starting at `at` (in front of a key, a comma or the
/// closing brace). Stops in front of the value of "traceEvents".
struct TopLevelScan {
  enum class Stop : std::uint8_t { kEvents, kEnd, kNeedMore, kMalformed } stop = Stop::kNeedMore;
  std::size_t at = 0;  ///< where scanning stopped; for kNeedMore, the start of the incomplete pair
};
TopLevelScan scan_top_level(std::string_view text, std::size_t at,
                            std::vector<std::pair<std::string, std::string>>& pairs);

/// Position of the '}' of the last record boundary in text, npos when there is none; and, going forward from `from`,
/// of the first.
std::size_t last_boundary(std::string_view text);
std::size_t first_boundary(std::string_view text, std::size_t from);

}  // namespace foretrace::trace
