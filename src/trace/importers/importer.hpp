#pragma once
// What a format is to the rest of foretrace. A new format is one file that defines an `Importer` and one line in
// registry.cpp; docs/internals/adding-a-format.md walks through it.

#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.hpp"
#include "base/seekable_source.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// One trace of an input that holds several: a process of an Nsight file, a GPU of a JAX file. `FILE#1` names the second.
struct Part {
  std::size_t index = 0;
  bool named = false;  ///< by whoever gave the file; else the first is taken
};

struct Importer {
  std::string_view name;        ///< "kineto"
  std::string_view about;       ///< one line for `foretrace list formats`
  std::string_view extensions;  ///< for people; recognition is by content
  /// How sure the importer is that `head` (the first bytes of the uncompressed input, up to 64 KiB) is of its format:
  /// 0 not at all, 100 certain. The highest wins.
  int (*sniff)(std::string_view head);
  /// Reads the whole input from its beginning to its end. `path` is for messages only. Null for formats that are read here
  /// and there (`read_part`).
  Result<Trace> (*read)(ByteSource& source, const std::string& path, const LoadOptions& options) = nullptr;
  /// Reads one part of an input of which any byte can be asked for: a database, nested messages.
  Result<Trace> (*read_part)(SeekableSource& source, const std::string& path, const LoadOptions& options,
                             const Part& part) = nullptr;
  /// How many parts such an input holds; cheap, and 1 where it cannot be determined.
  std::size_t (*count_parts)(SeekableSource& source) = nullptr;
};

/// Marks a trace as cut off or damaged: what came before the damage was read. `offset`: where it is, -1 where unknown.
inline void note_truncated(Trace& trace, std::string_view message, std::int64_t offset = -1) {
  trace.partial = true;
  trace.diagnostics.add("truncated_input", Severity::kDataLoss,
                        "the input is cut off or damaged; what came before was read", message, offset);
}

/// All importers, the explicit list of registry.cpp.
const std::vector<Importer>& importers();

/// What recognition looks at: so many bytes of the uncompressed input.
inline constexpr std::size_t kSniffBytes = 64 * 1024;
/// The importer that is surest of an input that begins so; null where none is.
const Importer* recognise_format(std::string_view head);

}  // namespace foretrace::trace
