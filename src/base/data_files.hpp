#pragma once
// The data files under src/, compiled into the program: measured tables, devices, fabrics, the parts of the page.

#include <span>
#include <string_view>
#include <vector>

namespace foretrace {

struct DataFile {
  std::string_view path;  ///< below src/: "hardware/kernels/H200-SXM.conv.csv"
  std::string_view text;

  /// The file's name without its extension: "H200-SXM.conv".
  [[nodiscard]] std::string_view stem() const;
};

/// All of them, by path.
std::span<const DataFile> data_files();
/// Those of one folder with this extension, by name: data_files_in("hardware/devices", ".toml").
std::vector<DataFile> data_files_in(std::string_view folder, std::string_view extension = ".csv");
/// The text of one file. It must exist: the path is written in our own sources.
std::string_view data_file(std::string_view path);

}  // namespace foretrace
