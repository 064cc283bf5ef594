#pragma once
// Nsight Systems' other export of tables: `nsys export --type parquetdir`, a folder with a file per table.

#include <string>

#include "trace/importers/importer.hpp"

namespace foretrace::trace {

/// Whether `path` is such a folder: by the names of the files in it.
bool is_nsight_folder(const std::string& path);
/// As the importer's read_part and count_parts do for a database.
Result<Trace> read_nsight_folder(const std::string& folder, const std::string& path, const LoadOptions& options,
                                 const Part& part);
std::size_t count_nsight_folder(const std::string& folder, const LoadOptions& options);

}  // namespace foretrace::trace
