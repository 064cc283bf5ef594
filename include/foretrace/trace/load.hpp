#pragma once
// Reading traces: files, folders with one file per rank, standard input; the format is recognised by content.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/trace.hpp"

namespace foretrace::trace {

/// Some rows of a table, column by column. The memory belongs to the reader.
struct ColumnBatch {
  struct Column {
    const std::int64_t* numbers = nullptr;  ///< one per row; null for a column of texts
    const std::int64_t* offsets = nullptr;  ///< rows + 1 of them: row i is bytes[offsets[i] .. offsets[i + 1])
    const char* bytes = nullptr;
    const std::uint8_t* present = nullptr;  ///< one per row, 0 where there is no value; null: all are there
  };
  std::size_t rows = 0;
  std::vector<Column> columns;  ///< as they were asked for
};

/// Reads folders of `TABLE.parquet`. The library has no Parquet reader of its own; the Python module offers pyarrow's.
struct ParquetReader {
  /// The tables of a folder, with the names of their columns.
  std::function<Result<std::map<std::string, std::set<std::string>>>(const std::string& folder)> tables;
  /// Calls `each` with all rows of a table, batch by batch, in the order of the file.
  std::function<Status(const std::string& folder, const std::string& table, const std::vector<std::string>& columns,
                       const std::function<void(const ColumnBatch&)>& each)>
      scan;
};

struct LoadOptions {
  unsigned threads = 0;  ///< 0: as many as the machine has; the result is the same for any number
  bool strict = false;   ///< any lost record is an error
  bool partial = false;  ///< a truncated input yields what came before the cut
  Progress progress;     ///< may be empty
  std::string steps_by =
      {};  ///< the range that marks steps (trace::steps_by); empty: found automatically, the most reliable source first
  ParquetReader parquet = {};  ///< for Nsight's export of Parquet tables; without one such folders are refused
};

/// One trace from a file, or from standard input when the path is "-".
Result<Trace> load(const std::string& path, const LoadOptions& options = {});
/// One trace from bytes in memory (tests, fuzzing, Python).
Result<Trace> load_bytes(std::string_view bytes, const std::string& name, const LoadOptions& options = {});

/// The trace files behind arguments that may be files or folders, sorted by rank where names or contents show it.
/// Folders are searched one level deep for files of a known format; a folder without any is an error.
Result<std::vector<std::string>> find_trace_files(const std::vector<std::string>& paths,
                                                  const LoadOptions& options = {});

struct FormatInfo {
  std::string name;        ///< "kineto"
  std::string about;       ///< "PyTorch profiler (Kineto) JSON"
  std::string extensions;  ///< ".json .json.gz .json.zst"
};
/// All formats this build reads, sorted by name.
std::vector<FormatInfo> formats();

// A trace as bytes and back, for exchange between processes of one version (a cluster's workers). Not a file format:
// it changes with the columns.
//
//   std::string bytes = pack(trace);
//   Result<Trace> same = unpack(bytes);      // equal in every column and id

std::string pack(const Trace& trace);
/// Refused when the bytes are not what `pack` of this version wrote: they carry its mark and a sum over themselves.
Result<Trace> unpack(std::string_view bytes);

}  // namespace foretrace::trace
