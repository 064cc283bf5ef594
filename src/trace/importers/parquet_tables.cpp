#include "trace/importers/parquet_tables.hpp"

namespace foretrace::trace {

Result<ParquetTables> ParquetTables::open(const std::string& folder, ParquetReader reader) {
  if (!reader.tables) {
    return fail(ErrorCode::kUnreadable, "this is Nsight's parquet export, which this program cannot read by itself",
                "pip install \"foretrace[arrow]\", then the same command behind `python -m foretrace`; or export the "
                "report again: nsys export --type sqlite REPORT.nsys-rep");
  }
  ParquetTables out;
  out.folder_ = folder;
  out.reader_ = std::move(reader);
  FORETRACE_TRY(out.tables_, out.reader_.tables(folder));
  return out;
}

Status ParquetTables::scan(const std::string& table, std::initializer_list<std::string_view> columns,
                           const EachRow& each) const {
  // What the table does not have is not asked for; its place stays empty.
  std::vector<std::string> there;
  std::vector<std::size_t> place;
  for (auto column = columns.begin(); column != columns.end(); ++column) {
    if (!has(table, std::string(*column))) continue;
    place.push_back(static_cast<std::size_t>(column - columns.begin()));
    there.emplace_back(*column);
  }
  if (there.empty()) return {};
  ColumnBatch spread;
  return reader_.scan(folder_, table, there, [&](const ColumnBatch& batch) {
    spread.rows = batch.rows;
    spread.columns.assign(columns.size(), {});
    for (std::size_t i = 0; i < place.size(); ++i) spread.columns[place[i]] = batch.columns[i];
    for (std::size_t row = 0; row < batch.rows; ++row) each(TableRow(spread, row));
  });
}

}  // namespace foretrace::trace
