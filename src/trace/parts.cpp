#include "trace/parts.hpp"

#include <filesystem>

#include "base/byte_source.hpp"
#include "base/decimal.hpp"
#include "trace/importers/importer.hpp"
#include "trace/importers/nsight_folder.hpp"

namespace foretrace::trace {

namespace fs = std::filesystem;

PartOfFile part_of_file(const std::string& path) {
  const std::size_t mark = path.rfind('#');
  std::error_code error;
  if (mark == std::string::npos || mark == 0 || mark + 1 == path.size() || fs::exists(path, error)) return {path, {}};
  const std::string digits = path.substr(mark + 1);
  constexpr std::size_t kMostDigits = 6;
  if (digits.find_first_not_of("0123456789") != std::string::npos || digits.size() > kMostDigits) return {path, {}};
  return {path.substr(0, mark), static_cast<std::size_t>(*parse_int64(digits))};
}

std::size_t parts_in(const std::string& file, const LoadOptions& options) {
  if (is_nsight_folder(file)) return count_nsight_folder(file, options);
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return 1;  // a pipe can be read only once
  auto source = open_source(file);
  if (!source) return 1;
  const Result<std::string> head = peek(*source, kSniffBytes);
  if (!head) return 1;
  const Importer* importer = recognise_format(*head);
  if (importer == nullptr || importer->count_parts == nullptr) return 1;
  auto seekable = make_seekable(**source);
  return seekable ? importer->count_parts(**seekable) : 1;
}

}  // namespace foretrace::trace
