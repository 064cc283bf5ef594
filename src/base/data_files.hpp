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
  /// The part of the stem before its first dot: "H200-SXM". Tables are named after the device they were measured on.
  [[nodiscard]] std::string_view device() const { return stem().substr(0, stem().find('.')); }
};

/// A set of data files. Models are built from one, so that a test or a tool can add a device or replace a table.
class DataFiles {
 public:
  /// Those compiled in.
  static const DataFiles& shipped();
  /// These files and one more, which takes the place of a file of the same path. Its text must outlive the set.
  [[nodiscard]] DataFiles with(const DataFile& extra) const;

  /// Those of one folder with this extension, by name: in("hardware/devices", ".toml").
  [[nodiscard]] std::vector<DataFile> in(std::string_view folder, std::string_view extension = ".csv") const;
  /// One file. It must exist: the path is written in our own sources.
  [[nodiscard]] const DataFile& at(std::string_view path) const;
  /// A table that is measured by device, "FOLDER/DEVICE.csv" or "FOLDER/DEVICE.PART.csv": the device's own, else that of the
  /// reference device (base/reference.csv); an empty file where neither has one.
  [[nodiscard]] DataFile measured(std::string_view folder, std::string_view device, std::string_view part = {}) const;
  [[nodiscard]] std::string_view reference_device() const { return reference_device_; }
  /// The host whose measured costs stand in where no others were given.
  [[nodiscard]] std::string_view reference_host() const { return reference_host_; }

 private:
  [[nodiscard]] const DataFile* find(std::string_view path) const;
  void read_references();

  std::vector<DataFile> files_;  // by path
  std::string_view reference_device_, reference_host_;
};

/// The same of those compiled in.
std::vector<DataFile> data_files_in(std::string_view folder, std::string_view extension = ".csv");
std::string_view data_file(std::string_view path);

/// What the build generates: all of them, by path.
std::span<const DataFile> embedded_files();

}  // namespace foretrace
