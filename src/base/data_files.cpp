#include "base/data_files.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/csv.hpp"
#include "foretrace/base/result.hpp"

namespace foretrace {

std::string_view DataFile::stem() const {
  const std::size_t begin = path.rfind('/') + 1;  // npos + 1 == 0
  return path.substr(begin, path.rfind('.') - begin);
}

const DataFiles& DataFiles::shipped() {
  static const DataFiles kShipped = [] {
    DataFiles all;
    all.files_.assign(embedded_files().begin(), embedded_files().end());
    all.read_references();
    return all;
  }();
  return kShipped;
}

DataFiles DataFiles::with(const DataFile& extra) const {
  DataFiles more = *this;
  const auto at = std::lower_bound(more.files_.begin(), more.files_.end(), extra.path,
                                   [](const DataFile& file, std::string_view path) { return file.path < path; });
  if (at != more.files_.end() && at->path == extra.path) {
    *at = extra;
  } else {
    more.files_.insert(at, extra);
  }
  more.read_references();
  return more;
}

std::vector<DataFile> DataFiles::in(std::string_view folder, std::string_view extension) const {
  std::vector<DataFile> found;
  for (const DataFile& file : files_) {
    if (file.path.substr(0, file.path.rfind('/')) == folder && file.path.ends_with(extension)) found.push_back(file);
  }
  return found;
}

const DataFile* DataFiles::find(std::string_view path) const {
  const auto at = std::find_if(files_.begin(), files_.end(), [&](const DataFile& file) { return file.path == path; });
  return at == files_.end() ? nullptr : &*at;
}

const DataFile& DataFiles::at(std::string_view path) const {
  const DataFile* found = find(path);
  FORETRACE_CHECK(found != nullptr);
  return *found;
}

DataFile DataFiles::measured(std::string_view folder, std::string_view device, std::string_view part) const {
  for (const std::string_view on : {device, reference_device_}) {
    const std::string name = part.empty() ? std::string(on) : fmt::format("{}.{}", on, part);
    if (const DataFile* found = find(fmt::format("{}/{}.csv", folder, name))) return *found;
  }
  return {};
}

void DataFiles::read_references() {
  CsvReader reference(at("base/reference.csv").text);
  FORETRACE_CHECK(reference.next());
  reference_device_ = reference["device"];
  reference_host_ = reference["host"];
}

std::vector<DataFile> data_files_in(std::string_view folder, std::string_view extension) {
  return DataFiles::shipped().in(folder, extension);
}

std::string_view data_file(std::string_view path) { return DataFiles::shipped().at(path).text; }

}  // namespace foretrace
