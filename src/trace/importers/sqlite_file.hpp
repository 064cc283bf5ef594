#pragma once
// An SQLite database read through a SeekableSource: no lock, no journal, nothing written beside the user's file, and the
// same for plain, compressed and in-memory input. Tables are scanned in the order of the file; columns that a version of
// the writer did not have yet read as NULL.
//
//   FORETRACE_TRY(SqliteFile file, SqliteFile::open(source));
//   if (file.has("PROCESSES")) FORETRACE_TRY_VOID(file.scan("PROCESSES", {"pid", "name"}, [&](const SqliteRow& row) {
//     names[row.integer(0)] = row.text(1);
//   }));

#include <sqlite3.h>

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/seekable_source.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace::trace {

/// One row of a scan; columns in the order they were asked for.
class SqliteRow {
 public:
  explicit SqliteRow(sqlite3_stmt* statement) : s_(statement) {}
  [[nodiscard]] bool null(int column) const { return sqlite3_column_type(s_, column) == SQLITE_NULL; }
  [[nodiscard]] std::int64_t integer(int column) const { return sqlite3_column_int64(s_, column); }
  [[nodiscard]] std::int64_t integer(int column, std::int64_t otherwise) const {
    return null(column) ? otherwise : integer(column);
  }
  [[nodiscard]] std::string_view text(int column) const {
    const auto* t = reinterpret_cast<const char*>(sqlite3_column_text(s_, column));
    return t == nullptr ? std::string_view{}
                        : std::string_view(t, static_cast<std::size_t>(sqlite3_column_bytes(s_, column)));
  }

 private:
  sqlite3_stmt* s_;
};

class SqliteFile {
 public:
  /// Reads the list of tables. An error where the bytes are no database, or the list itself is damaged.
  static Result<SqliteFile> open(SeekableSource& source);

  [[nodiscard]] bool has(const std::string& table) const { return tables_.contains(table); }
  [[nodiscard]] bool has(const std::string& table, const std::string& column) const;
  [[nodiscard]] const std::map<std::string, std::set<std::string>>& tables() const { return tables_; }
  /// An error where the file is shorter than it says. Tables before the cut can still be scanned.
  [[nodiscard]] Status whole() const;

  /// Calls `each` for every row of a table, in the order of the file. Damage stops it: what came before has been given.
  template <class F>
  Status scan(const std::string& table, std::initializer_list<std::string_view> columns, F each) const {
    FORETRACE_TRY(const Statement statement, select(table, columns));
    int code = SQLITE_ROW;
    while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) each(SqliteRow(statement.get()));
    return code == SQLITE_DONE ? Status{} : damaged(table);
  }

  /// What SQLite's "file" is made of.
  struct Input {
    SeekableSource* source = nullptr;
    std::uint64_t claimed_bytes = 0;  ///< what the header says
  };

 private:
  struct Close {
    void operator()(sqlite3* db) const { sqlite3_close(db); }
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;

  [[nodiscard]] Result<Statement> select(const std::string& table,
                                         std::initializer_list<std::string_view> columns) const;
  [[nodiscard]] Result<Statement> prepare(const std::string& sql, const std::string& table) const;
  [[nodiscard]] Status damaged(const std::string& table) const;

  std::unique_ptr<Input> input_;  // must outlive db_
  std::unique_ptr<sqlite3, Close> db_;
  std::map<std::string, std::set<std::string>> tables_;  // name -> columns
};

}  // namespace foretrace::trace
