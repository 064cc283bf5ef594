#pragma once
// For formats that are one record after the other: the input in blocks, of which a reader takes whole records and leaves the
// rest for when more has come. Memory is a block and the longest record.

#include <cstdint>
#include <string>
#include <string_view>

#include "trace/importers/importer.hpp"

namespace foretrace::trace {

/// What no reader took: where it begins, and how much it is.
struct StreamRest {
  std::uint64_t at = 0;
  std::size_t bytes = 0;
};

/// Calls `take(text, at, ended)` with what has been read and not been taken, its place in the input, and whether there is no
/// more; it answers with a Result of how many bytes it took. A source that fails ends the input with `partial`.
template <class Take>
Result<StreamRest> read_records(ByteSource& source, Trace& trace, const LoadOptions& options, Take take) {
  constexpr std::size_t kBlock = std::size_t{1} << 20;
  StreamRest rest;
  std::string buffer;
  std::string block(kBlock, '\0');
  for (bool ended = false; !ended;) {
    Result<std::size_t> got = source.read(block.data(), block.size());
    if (!got) {
      if (!options.partial) return forward(got);
      trace.partial = true;
      break;
    }
    ended = *got == 0;
    trace.input_bytes += *got;
    buffer.append(block.data(), *got);
    if (options.progress) options.progress("reading " + trace.path, source.consumed(), source.total(), kBytes);
    FORETRACE_TRY(const std::size_t taken, take(std::string_view(buffer), rest.at, ended));
    buffer.erase(0, taken);
    rest.at += taken;
  }
  rest.bytes = buffer.size();
  return rest;
}

}  // namespace foretrace::trace
