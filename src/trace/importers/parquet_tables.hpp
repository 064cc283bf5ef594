#pragma once
// A folder of `TABLE.parquet`, read through LoadOptions::parquet.

#include "trace/importers/table_file.hpp"

namespace foretrace::trace {

class ParquetTables : public TableFile {
 public:
  /// Reads the names of tables and columns. An error where nobody brought a reader, or it cannot read the folder.
  static Result<ParquetTables> open(const std::string& folder, ParquetReader reader);

  Status scan(const std::string& table, std::string_view columns, const EachRow& each) const override;

 private:
  std::string folder_;
  ParquetReader reader_;
};

}  // namespace foretrace::trace
