#pragma once
// Named tables with typed columns, whatever holds them: an SQLite database, a folder of Parquet files. Tables are scanned in
// the order of the file; columns that a version of the writer did not have yet read as NULL.
//
//   if (file.has("PROCESSES")) FORETRACE_TRY_VOID(file.scan("PROCESSES", "pid name", [&](const TableRow& row) {
//     names[row.integer(0)] = row.text(1);
//   }));

#include <sqlite3.h>

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "foretrace/base/result.hpp"
#include "foretrace/trace/load.hpp"

namespace foretrace::trace {

/// One row of a scan; columns in the order they were asked for. One class for both holders, without virtual calls: a kernel's
/// row asks twenty times.
class TableRow {
 public:
  explicit TableRow(sqlite3_stmt* statement) : s_(statement) {}
  TableRow(const ColumnBatch& batch, std::size_t row) : batch_(&batch), row_(row) {}

  [[nodiscard]] bool null(int column) const {
    return s_ != nullptr ? sqlite3_column_type(s_, column) == SQLITE_NULL : absent(of(column));
  }
  /// Whether it is a number: a column of SQLite's may hold a text where numbers belong.
  [[nodiscard]] bool number(int column) const {
    if (s_ == nullptr) return !null(column) && of(column).numbers != nullptr;
    const int type = sqlite3_column_type(s_, column);
    return type == SQLITE_INTEGER || type == SQLITE_FLOAT;
  }
  /// 0 where there is none, as SQLite has it.
  [[nodiscard]] std::int64_t integer(int column) const {
    if (s_ != nullptr) return sqlite3_column_int64(s_, column);
    const ColumnBatch::Column& c = of(column);
    return absent(c) || c.numbers == nullptr ? 0 : c.numbers[row_];
  }
  [[nodiscard]] std::int64_t integer(int column, std::int64_t otherwise) const {
    return null(column) ? otherwise : integer(column);
  }
  /// Text or bytes; they live until the next row.
  [[nodiscard]] std::string_view text(int column) const {
    if (s_ != nullptr) {
      const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(s_, column));
      return t == nullptr ? std::string_view{} : std::string_view(t, bytes_of(column));
    }
    const ColumnBatch::Column& c = of(column);
    if (absent(c) || c.offsets == nullptr) return {};
    return {c.bytes + c.offsets[row_], static_cast<std::size_t>(c.offsets[row_ + 1] - c.offsets[row_])};
  }
  /// As `text`, for what may hold zeros and anything else.
  [[nodiscard]] std::string_view blob(int column) const {
    if (s_ == nullptr) return text(column);
    const auto* t = static_cast<const char*>(sqlite3_column_blob(s_, column));
    return t == nullptr ? std::string_view{} : std::string_view(t, bytes_of(column));
  }

 private:
  [[nodiscard]] const ColumnBatch::Column& of(int column) const {
    return batch_->columns[static_cast<std::size_t>(column)];
  }
  [[nodiscard]] bool absent(const ColumnBatch::Column& c) const {
    return (c.numbers == nullptr && c.offsets == nullptr) || (c.present != nullptr && c.present[row_] == 0);
  }
  [[nodiscard]] std::size_t bytes_of(int column) const {
    return static_cast<std::size_t>(sqlite3_column_bytes(s_, column));
  }

  sqlite3_stmt* s_ = nullptr;
  const ColumnBatch* batch_ = nullptr;
  std::size_t row_ = 0;
};

class TableFile {
 public:
  TableFile() = default;
  TableFile(TableFile&&) = default;
  TableFile& operator=(TableFile&&) = default;
  TableFile(const TableFile&) = delete;
  TableFile& operator=(const TableFile&) = delete;
  virtual ~TableFile() = default;

  using EachRow = std::function<void(const TableRow&)>;

  [[nodiscard]] bool has(const std::string& table) const { return tables_.contains(table); }
  [[nodiscard]] bool has(const std::string& table, const std::string& column) const {
    const auto it = tables_.find(table);
    return it != tables_.end() && it->second.contains(column);
  }
  [[nodiscard]] const std::map<std::string, std::set<std::string>>& tables() const { return tables_; }
  /// An error where the file is shorter than it says. Tables before the cut can still be scanned.
  [[nodiscard]] virtual Status whole() const { return {}; }
  /// Calls `each` for every row of a table, in the order of the file, with the columns named (separated by blanks). Damage
  /// ends the scan: the rows before it have been given.
  virtual Status scan(const std::string& table, std::string_view columns, const EachRow& each) const = 0;

 protected:
  std::map<std::string, std::set<std::string>> tables_;  // name -> columns
};

}  // namespace foretrace::trace
