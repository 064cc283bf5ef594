#pragma once
// Parquet is read where somebody brings a reader of it: the Python module does where pyarrow is at hand. The library has none
// of its own.

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "foretrace/base/result.hpp"

namespace foretrace::trace {

/// Some rows of a table, column by column; the memory belongs to whoever read them.
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

/// Reads folders of `TABLE.parquet`.
struct ParquetReader {
  /// The tables of a folder, with the names of their columns.
  std::function<Result<std::map<std::string, std::set<std::string>>>(const std::string& folder)> tables;
  /// Calls `each` with all rows of a table, batch by batch, in the order of the file.
  std::function<Status(const std::string& folder, const std::string& table, const std::vector<std::string>& columns,
                       const std::function<void(const ColumnBatch&)>& each)>
      scan;
};

/// The reader of this process; empty functions where there is none.
ParquetReader& parquet_reader();

}  // namespace foretrace::trace
