#include "trace/importers/nsight_folder.hpp"

#include <filesystem>

#include "trace/importers/nsight.hpp"
#include "trace/importers/parquet_tables.hpp"

namespace foretrace::trace {

namespace fs = std::filesystem;

bool is_nsight_folder(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return false;
  for (const char* table : {"StringIds", "META_DATA_EXPORT", kNsightKernels, kNsightCalls, "NVTX_EVENTS"}) {
    if (fs::is_regular_file(fs::path(path) / (std::string(table) + ".parquet"), error)) return true;
  }
  return false;
}

Result<Trace> read_nsight_folder(const std::string& folder, const std::string& path, const LoadOptions& options,
                                 const Part& part) {
  FORETRACE_TRY(const ParquetTables file, ParquetTables::open(folder, options.parquet));
  std::uint64_t bytes = 0;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code none;
    const std::uintmax_t size = it->path().extension() == ".parquet" ? it->file_size(none) : 0;
    if (!none) bytes += size;
  }
  return read_nsight_tables(file, path, bytes, options, part);
}

std::size_t count_nsight_folder(const std::string& folder, const LoadOptions& options) {
  const Result<ParquetTables> file = ParquetTables::open(folder, options.parquet);
  return file ? count_nsight_tables(*file) : 1;
}

}  // namespace foretrace::trace
