#include "trace/importers/parquet_tables.hpp"

#include <fmt/format.h>

#include "base/install_hint.hpp"
#include "base/text.hpp"

namespace foretrace::trace {

Result<ParquetTables> ParquetTables::open(const std::string& folder, ParquetReader reader) {
  if (!reader.tables) {
    return fail(
        ErrorCode::kUnreadable, "this is Nsight's parquet export, which this program cannot read by itself",
        fmt::format("{}, and `pip install pyarrow`, then the same command with `python3 -m foretrace`; or export the "
                    "report again: nsys export --type sqlite REPORT.nsys-rep",
                    kInstallModule));
  }
  ParquetTables out;
  out.folder_ = folder;
  out.reader_ = std::move(reader);
  FORETRACE_TRY(out.tables_, out.reader_.tables(folder));
  return out;
}

Status ParquetTables::scan(const std::string& table, std::string_view columns, const EachRow& each) const {
  // The reader is asked only for columns the table has; the places of the others stay empty.
  const std::vector<std::string_view> wanted = split(columns, ' ');
  std::vector<std::string> there;
  std::vector<std::size_t> place;
  for (std::size_t c = 0; c < wanted.size(); ++c) {
    if (!has(table, std::string(wanted[c]))) continue;
    place.push_back(c);
    there.emplace_back(wanted[c]);
  }
  if (there.empty()) return {};
  ColumnBatch spread;
  return reader_.scan(folder_, table, there, [&](const ColumnBatch& batch) {
    spread.rows = batch.rows;
    spread.columns.assign(wanted.size(), {});
    for (std::size_t i = 0; i < place.size(); ++i) spread.columns[place[i]] = batch.columns[i];
    for (std::size_t row = 0; row < batch.rows; ++row) each(TableRow(spread, row));
  });
}

}  // namespace foretrace::trace
