#pragma once
// An SQLite database read through a SeekableSource: no lock, no journal, nothing written next to the user's file, and the
// same for plain, compressed and in-memory input.
//
//   FORETRACE_TRY(SqliteFile file, SqliteFile::open(source));

#include <sqlite3.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/seekable_source.hpp"
#include "foretrace/base/result.hpp"
#include "trace/importers/table_file.hpp"

namespace foretrace::trace {

class SqliteFile : public TableFile {
 public:
  /// Reads the list of tables. An error where the bytes are no database, or the list itself is damaged.
  static Result<SqliteFile> open(SeekableSource& source);

  [[nodiscard]] Status whole() const override;
  Status scan(const std::string& table, std::string_view columns, const EachRow& each) const override;

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

  [[nodiscard]] Result<Statement> select(const std::string& table, std::string_view columns) const;
  [[nodiscard]] Result<Statement> prepare(const std::string& sql, const std::string& table) const;
  [[nodiscard]] Status damaged(const std::string& table) const;

  std::unique_ptr<Input> input_;  // must outlive db_
  std::unique_ptr<sqlite3, Close> db_;
};

}  // namespace foretrace::trace
