#include "base/data_files.hpp"

#include <algorithm>

#include "foretrace/base/result.hpp"

namespace foretrace {

std::string_view DataFile::stem() const {
  const std::size_t begin = path.rfind('/') + 1;  // npos + 1 == 0
  return path.substr(begin, path.rfind('.') - begin);
}

std::vector<DataFile> data_files_in(std::string_view folder, std::string_view extension) {
  std::vector<DataFile> found;
  for (const DataFile& file : data_files()) {
    if (file.path.substr(0, file.path.rfind('/')) == folder && file.path.ends_with(extension)) found.push_back(file);
  }
  return found;
}

std::string_view data_file(std::string_view path) {
  const std::span files = data_files();
  const auto at = std::find_if(files.begin(), files.end(), [&](const DataFile& file) { return file.path == path; });
  FORETRACE_CHECK(at != files.end());
  return at->text;
}

}  // namespace foretrace
