#include "trace/importers/sqlite_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/decimal.hpp"
#include "base/text.hpp"

namespace foretrace::trace {

namespace {

// A "file" of SQLite's that reads from a SeekableSource. -------------------------------------------------------------

struct SourceFile {
  sqlite3_file base;  // must come first
  const SqliteFile::Input* input;
};

const SqliteFile::Input& input_of(sqlite3_file* file) { return *reinterpret_cast<SourceFile*>(file)->input; }

int read_bytes(sqlite3_file* file, void* out, int n, sqlite3_int64 offset) {
  auto* bytes = static_cast<char*>(out);
  const auto wanted = static_cast<std::size_t>(n);
  const SqliteFile::Input& input = input_of(file);
  const Result<std::size_t> got = input.source->read_at(static_cast<std::uint64_t>(offset), bytes, wanted);
  if (!got) return SQLITE_IOERR_READ;
  // A database in WAL mode would ask for a second file next to it; we read what has reached the main one.
  constexpr sqlite3_int64 kModes[] = {18, 19};
  for (const sqlite3_int64 at : kModes) {
    const sqlite3_int64 place = at - offset;
    if (place >= 0 && place < static_cast<sqlite3_int64>(*got) && bytes[place] == 2) bytes[place] = 1;
  }
  if (*got == wanted) return SQLITE_OK;
  std::memset(bytes + *got, 0, wanted - *got);
  // Behind a cut the file goes on with zeros, so that what is before it can be read.
  const bool cut = static_cast<std::uint64_t>(offset) + wanted <= input.claimed_bytes;
  return cut ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int file_size(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(std::max(input_of(file).source->size(), input_of(file).claimed_bytes));
  return SQLITE_OK;
}

const sqlite3_io_methods& methods() {
  static const sqlite3_io_methods all = [] {
    sqlite3_io_methods m{};
    m.iVersion = 1;
    m.xClose = [](sqlite3_file*) { return SQLITE_OK; };
    m.xRead = read_bytes;
    m.xWrite = [](sqlite3_file*, const void*, int, sqlite3_int64) { return SQLITE_READONLY; };
    m.xTruncate = [](sqlite3_file*, sqlite3_int64) { return SQLITE_READONLY; };
    m.xSync = [](sqlite3_file*, int) { return SQLITE_OK; };
    m.xFileSize = file_size;
    m.xLock = [](sqlite3_file*, int) { return SQLITE_OK; };
    m.xUnlock = [](sqlite3_file*, int) { return SQLITE_OK; };
    m.xCheckReservedLock = [](sqlite3_file*, int* held) {
      *held = 0;
      return SQLITE_OK;
    };
    m.xFileControl = [](sqlite3_file*, int, void*) { return SQLITE_NOTFOUND; };
    m.xSectorSize = [](sqlite3_file*) { return 4096; };
    m.xDeviceCharacteristics = [](sqlite3_file*) { return SQLITE_IOCAP_IMMUTABLE; };
    return m;
  }();
  return all;
}

constexpr const char* kVfsName = "foretrace-source";

// The name of the "file" is the address of its input: SQLite hands nothing else through.
int open_file(sqlite3_vfs*, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  file->pMethods = nullptr;
  if (name == nullptr || (flags & SQLITE_OPEN_MAIN_DB) == 0) return SQLITE_CANTOPEN;
  const auto address = parse_int64(name);
  if (!address) return SQLITE_CANTOPEN;
  file->pMethods = &methods();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): made of one below
  reinterpret_cast<SourceFile*>(file)->input = reinterpret_cast<const SqliteFile::Input*>(*address);
  if (out_flags != nullptr) *out_flags = SQLITE_OPEN_READONLY | SQLITE_OPEN_MAIN_DB;
  return SQLITE_OK;
}

void register_vfs() {
  static std::once_flag once;
  static sqlite3_vfs vfs{};
  std::call_once(once, [] {
    sqlite3_initialize();
    const sqlite3_vfs* typical = sqlite3_vfs_find(nullptr);
    vfs = *typical;
    vfs.iVersion = 1;
    vfs.szOsFile = sizeof(SourceFile);
    vfs.pNext = nullptr;
    vfs.zName = kVfsName;
    vfs.xOpen = open_file;
    vfs.xDelete = [](sqlite3_vfs*, const char*, int) { return SQLITE_OK; };
    vfs.xAccess = [](sqlite3_vfs*, const char*, int, int* there) {
      *there = 0;
      return SQLITE_OK;
    };
    vfs.xFullPathname = [](sqlite3_vfs*, const char* name, int n, char* out) {
      std::strncpy(out, name, static_cast<std::size_t>(n));
      out[n - 1] = '\0';
      return SQLITE_OK;
    };
    sqlite3_vfs_register(&vfs, 0);
  });
}

std::string quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out.append(c == '"' ? 2 : 1, c);
  return out + '"';
}

Status unreadable(std::string message, std::string hint) {
  return fail(ErrorCode::kUnreadable, std::move(message), std::move(hint));
}

}  // namespace

Result<SqliteFile> SqliteFile::open(SeekableSource& source) {
  register_vfs();
  SqliteFile out;
  out.input_ = std::make_unique<Input>();
  out.input_->source = &source;
  // Size in pages at 28, bytes of a page at 16, both big-endian (the format's documentation, "the database header").
  std::array<unsigned char, 100> head{};
  FORETRACE_TRY(const std::size_t got, source.read_at(0, reinterpret_cast<char*>(head.data()), head.size()));
  if (got == head.size()) {
    const std::uint64_t page = (std::uint64_t{head[16]} << 8) | head[17];
    const std::uint64_t pages =
        (std::uint64_t{head[28]} << 24) | (std::uint64_t{head[29]} << 16) | (std::uint64_t{head[30]} << 8) | head[31];
    out.input_->claimed_bytes = pages * (page == 1 ? 65536 : page);
  }
  sqlite3* db = nullptr;
  const std::string name = std::to_string(reinterpret_cast<std::intptr_t>(out.input_.get()));
  const int code = sqlite3_open_v2(name.c_str(), &db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, kVfsName);
  out.db_.reset(db);
  if (code != SQLITE_OK) return fail(ErrorCode::kUnreadable, "SQLite cannot open the database");
  // The file may be anybody's: no code of its schema runs.
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_exec(db, "PRAGMA temp_store=MEMORY; PRAGMA cell_size_check=ON;", nullptr, nullptr, nullptr);

  std::vector<std::string> names;
  FORETRACE_TRY(const Statement list,
                out.prepare("SELECT name FROM sqlite_master WHERE type='table' AND sql NOT LIKE 'CREATE VIRTUAL%'",
                            "the list of tables"));
  int step = SQLITE_ROW;
  while ((step = sqlite3_step(list.get())) == SQLITE_ROW) names.emplace_back(TableRow(list.get()).text(0));
  if (step != SQLITE_DONE) {
    Status status = out.damaged("the list of tables");
    return forward(status);
  }
  for (const std::string& table : names) {
    FORETRACE_TRY(const Statement columns, out.prepare(fmt::format("PRAGMA table_xinfo({})", quoted(table)), table));
    std::set<std::string>& known = out.tables_[table];
    while (sqlite3_step(columns.get()) == SQLITE_ROW) {
      // Generated columns (hidden 2 and 3) are code.
      const TableRow row(columns.get());
      if (row.integer(6) == 0) known.emplace(row.text(1));
    }
  }
  return out;
}

Result<SqliteFile::Statement> SqliteFile::prepare(const std::string& sql, const std::string& table) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql.c_str(), static_cast<int>(sql.size()), &statement, nullptr) != SQLITE_OK) {
    Status status = damaged(table);
    return forward(status);
  }
  return Statement(statement);
}

Result<SqliteFile::Statement> SqliteFile::select(const std::string& table, std::string_view columns) const {
  std::string sql;
  for (const std::string_view column : split(columns, ' ')) {
    sql += sql.empty() ? "SELECT " : ", ";
    sql += has(table, std::string(column)) ? quoted(column) : "NULL";
  }
  return prepare(fmt::format("{} FROM {}", sql, quoted(table)), table);
}

Status SqliteFile::scan(const std::string& table, std::string_view columns, const EachRow& each) const {
  FORETRACE_TRY(const Statement statement, select(table, columns));
  int code = SQLITE_ROW;
  while ((code = sqlite3_step(statement.get())) == SQLITE_ROW) each(TableRow(statement.get()));
  return code == SQLITE_DONE ? Status{} : damaged(table);
}

Status SqliteFile::whole() const {
  if (input_->claimed_bytes <= input_->source->size()) return {};
  return unreadable(fmt::format("the database is cut off: it should have {} bytes and has {}", input_->claimed_bytes,
                                input_->source->size()),
                    "copy or export it again; --partial reads what can be read");
}

Status SqliteFile::damaged(const std::string& table) const {
  FORETRACE_TRY_VOID(whole());
  const int code = sqlite3_errcode(db_.get());
  if (code == SQLITE_NOTADB) {
    return unreadable("the file begins like an SQLite database and is none", "export it again");
  }
  return unreadable(fmt::format("the database is damaged ({}, {})", table, sqlite3_errmsg(db_.get())),
                    "export it again; --partial reads what can be read");
}

}  // namespace foretrace::trace
