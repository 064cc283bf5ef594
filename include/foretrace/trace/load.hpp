#pragma once
// Reading traces: files, folders with one file per rank, standard input; the format is recognised by content.

#include <string>
#include <vector>

#include "foretrace/base/progress.hpp"
#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

struct LoadOptions {
  unsigned threads = 0;       ///< 0: as many as the machine has; the result is the same for any number
  bool strict = false;        ///< any lost record is an error
  bool partial = false;       ///< a truncated input yields what came before the cut
  Progress progress;          ///< may be empty
  std::string steps_by = {};  ///< the range that marks steps (trace::steps_by); empty: found in the order of trust
};

/// One trace from a file, or from standard input when the path is "-".
Result<Trace> load(const std::string& path, const LoadOptions& options = {});
/// One trace from bytes in memory (tests, fuzzing, Python).
Result<Trace> load_bytes(std::string_view bytes, const std::string& name, const LoadOptions& options = {});

/// The trace files behind arguments that may be files or folders, sorted by rank where names or contents tell it.
/// Folders are searched one level deep for files of a known format; a folder without any is an error.
Result<std::vector<std::string>> find_trace_files(const std::vector<std::string>& paths);

struct FormatInfo {
  std::string name;        ///< "kineto"
  std::string about;       ///< "PyTorch profiler (Kineto) JSON"
  std::string extensions;  ///< ".json .json.gz .json.zst"
};
/// All formats this build reads, sorted by name.
std::vector<FormatInfo> formats();

}  // namespace foretrace::trace
