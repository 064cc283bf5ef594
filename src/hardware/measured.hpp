#pragma once
// Measured operations (kernels/<device>.<operation>.csv), read on first use.

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/data_files.hpp"
#include "hardware/category_correlations.hpp"
#include "hardware/clocks.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/neighbours.hpp"

namespace foretrace::hardware {

class Tables;

/// A row of a table: named sizes.
class MeasuredSizes {
 public:
  void set(std::string_view name, std::int64_t size);
  /// 0 where the table has no such column.
  [[nodiscard]] std::int64_t operator[](std::string_view name) const;

 private:
  // A large table asks for half a million sizes, most of them by a letter.
  std::array<std::int64_t, 26> letters_{};
  std::vector<std::pair<std::string_view, std::int64_t>> words_;
};
/// The work that a cell of the table of an operation was measured on; `column` is "fwd fp16 nhwc".
Work measured_work(std::string_view operation, const MeasuredSizes& sizes, std::string_view column);

/// Measured operations of one category. Values of samples are residuals: log(measured / law), as without autotuning.
struct MeasuredCategory {
  Device measured_on;
  Neighbours samples;
  std::size_t features = 0;
  /// Two of three errors are smaller than this times the root of the variance. Read from <device>.scales.csv, as the next one is.
  double spread = 0;
  /// What autotuning adds to the log time, over the shapes that were measured both ways.
  double autotuning = 0;
};
using MeasuredCategories = std::map<std::string, MeasuredCategory, std::less<>>;

/// Measured work and its time.
struct MeasuredRow {
  std::string_view operation;
  Work work;
  double us = 0;
};

/// The tables of all measured devices. One operation's categories are read when the first of them is asked for, those of large
/// tables by element type; different ones at the same time, where several threads ask.
class KernelTables {
 public:
  KernelTables(const DataFiles& files, const Tables& tables);

  /// The operation of a file, "conv" of "H200-SXM.conv.csv".
  static std::string_view operation_of(const DataFile& file);
  /// Null where the device's tables have no such category.
  const MeasuredCategory* find(const std::string& category, const std::string& device);
  /// All categories of one device.
  const MeasuredCategories& all(const std::string& device);
  /// How much of a residual in one category shows in the other, on one device.
  double correlation(std::string_view category, std::string_view other, const std::string& device);
  /// All rows of one device.
  [[nodiscard]] std::vector<MeasuredRow> rows(const std::string& device) const;
  /// What the nearest samples say, remembered: a step repeats its shapes, and a search asks for the same step hundreds of times.
  Neighbours::Answers answers(const Neighbours& samples, const Features& at, const Neighbours::SampleFilter& filter,
                              const std::optional<Neighbours::Sample>& own = std::nullopt);

 private:
  struct Scaling {
    Scales scales;
    double spread = 0, autotuning = 0;
  };
  using Scalings = std::map<std::string, Scaling, std::less<>>;
  struct DeviceKernels {
    Device device;
    Scalings scalings;
    CategoryCorrelations correlations;
    std::map<std::string, std::once_flag> read;  // by part
    MeasuredCategories categories;               // a map: they stay where they are while others are read
  };
  class Memo;

  DeviceKernels& of(const std::string& device);
  const MeasuredCategory* found(const DeviceKernels& on, const std::string& category);
  void read_once(DeviceKernels& on, const std::string& part);
  void read(DeviceKernels& on, std::string_view part);
  static Scalings read_scalings(std::string_view csv);
  void read_table(const DataFile& file, std::string_view type, const DeviceKernels& on, MeasuredCategories& out) const;

  const DataFiles& files_;
  const Tables& tables_;
  std::mutex mutex_;
  std::map<std::string, DeviceKernels, std::less<>> devices_;
  std::shared_ptr<Memo> memo_;
};

}  // namespace foretrace::hardware
