#pragma once
// Measured operations (kernels/<device>.<operation>.csv), read when they are first asked for.

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

/// Measured operations of the same kernels. Values of samples are residuals: log(measured / law).
struct KernelPool {
  Device measured_on;
  Neighbours neighbours;
  std::size_t features = 0;
  /// Two of three errors are smaller than this times the root of the variance. Read from <device>.scales.csv, as the following are.
  double spread = 0;
  /// How much of an operation's own residual in fp32 shows again in this pool.
  double from_fp32 = 0;
  /// What autotuning adds to the log time, over the shapes that were measured both ways; samples are without it.
  double autotuning = 0;
  std::vector<std::size_t> autotuned;  ///< which samples these are
  /// Samples where the library guessed an algorithm so badly that autotuning would have shown it (a cell that ends with ?), and
  /// all others; empty where there are none.
  std::vector<std::size_t> misguessed;
  Neighbours well_guessed;
  /// The samples that work is compared with, whose algorithms are autotuned or not.
  [[nodiscard]] const Neighbours& samples_for(bool autotuned_work) const {
    return autotuned_work && !misguessed.empty() ? well_guessed : neighbours;
  }
};
using KernelPools = std::map<std::string, KernelPool, std::less<>>;

/// Measured work and its time.
struct MeasuredRow {
  std::string_view operation;
  Work work;
  double us = 0;
};

/// The tables of all measured devices. One operation's pools are read when the first of them is asked for, those of large tables by
/// element type; different ones at the same time, where several threads ask.
class KernelTables {
 public:
  KernelTables(const DataFiles& files, const Tables& tables);

  /// The operation of a file, "conv" of "H200-SXM.conv.csv".
  static std::string_view operation_of(const DataFile& file);
  /// Null where the device's tables have no such pool.
  const KernelPool* find(const std::string& pool, const std::string& device);
  /// All pools of one device.
  const KernelPools& all(const std::string& device);
  /// All rows of one device.
  [[nodiscard]] std::vector<MeasuredRow> rows(const std::string& device) const;
  /// What the nearest samples say, remembered: a step repeats its shapes, and a search asks for the same step hundreds of times.
  Neighbours::Answers answers(const Neighbours& samples, const Features& at,
                              const std::optional<Neighbours::Sample>& own = std::nullopt);

 private:
  struct Scaling {
    Scales scales;
    double spread = 0, from_fp32 = 0, autotuning = 0;
  };
  using Scalings = std::map<std::string, Scaling, std::less<>>;
  struct OfDevice {
    Device device;
    Scalings scalings;
    std::map<std::string, std::once_flag> read;  // by part
    KernelPools pools;                           // a map: pools stay where they are while others are read
  };
  class Memo;

  OfDevice& of(const std::string& device);
  const KernelPool* found(const OfDevice& on, const std::string& pool);
  void read_once(OfDevice& on, const std::string& part);
  void read(OfDevice& on, std::string_view part);
  static Scalings read_scalings(std::string_view csv);
  void read_table(const DataFile& file, std::string_view type, const OfDevice& on, KernelPools& pools) const;

  const DataFiles& files_;
  const Tables& tables_;
  std::mutex mutex_;
  std::map<std::string, OfDevice, std::less<>> devices_;
  std::shared_ptr<Memo> memo_;
};

/// The pool's name with another word in it; empty where the word does not occur.
std::string replace_word(std::string_view pool, std::string_view word, std::string_view other);
/// The pool of the same operations in fp32; empty for that itself.
std::string in_fp32(std::string_view pool);

}  // namespace foretrace::hardware
