#pragma once
// What a format is to the rest of foretrace. A new format is one file that defines an `Importer` and one line in
// registry.cpp; docs/adding-a-format.md walks through it.

#include <string>
#include <string_view>
#include <vector>

#include "base/byte_source.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/trace/load.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

struct Importer {
  std::string_view name;        ///< "kineto"
  std::string_view about;       ///< one line for `foretrace list formats`
  std::string_view extensions;  ///< for people; recognition is by content
  /// How sure the importer is that `head` (the first bytes of the uncompressed input, up to 64 KiB) is of its format:
  /// 0 not at all, 100 certain. The highest wins.
  int (*sniff)(std::string_view head);
  /// Reads the whole input. `path` is for messages only.
  Result<Trace> (*read)(ByteSource& source, const std::string& path, const LoadOptions& options);
};

/// All importers, the explicit list of registry.cpp.
const std::vector<Importer>& importers();

}  // namespace foretrace::trace
