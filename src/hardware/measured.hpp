#pragma once
// Measured operations (kernels/*.csv) and what they tell about others. Each family has a bound, what the device's rates and
// bandwidth allow, and a space of features that decide how near it comes to that bound. A prediction is the bound times
// the share told by the nearest measured operations of the same kernels (neighbours.hpp).

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "hardware/clocks.hpp"
#include "hardware/cost_models.hpp"
#include "hardware/neighbours.hpp"

namespace foretrace::hardware {

/// Where a piece of work lies among the measured ones.
struct MeasuredPlace {
  std::string pool;  ///< work that is done by the same kernels: "conv forward grouped fp16 nhwc"
  Features at{};
  std::size_t features = 0;
  double bound_us = 0;
  double waits_us =
      0;  ///< the part of it that follows the clock: steps one after the other, starts of blocks and kernels
  bool tuned = false;  ///< the library tried its algorithms
};
/// Nothing for kinds that have formulas of their own, and for work without sizes.
std::optional<MeasuredPlace> measured_place(const Work& work, const Device& device,
                                            const Clocks& as_counted = clocks());

/// A line of a table: named sizes.
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

/// Measured operations of the same kernels.
struct KernelPool {
  Device measured_on;
  Neighbours neighbours;
  std::size_t features = 0;
  /// Two of three errors are smaller than this times the root of Told::variance. Read from kernels/*.scales.csv.
  double spread = 0;
  /// How much of what an operation takes more or less than its neighbours say shows again in this pool: of the same operation in
  /// fp32, and in the other layout.
  double from_fp32 = 0, from_layout = 0;
  /// What trying the algorithms adds to the log time, over the shapes that were measured both ways; samples are without it.
  double tuned = 0;
  std::vector<std::pair<std::size_t, double>> tried;  ///< which samples these are, and their values as measured
  /// Where the library guessed so badly that trying would have shown it (a cell that ends with ?): which samples these are, and what the
  /// others say; empty where there are none.
  std::vector<std::size_t> misguessed;
  Neighbours sensible;
  /// Who tells work whose algorithms are tried, or not.
  [[nodiscard]] const Neighbours& telling(bool all_tried) const {
    return all_tried && !misguessed.empty() ? sensible : neighbours;
  }
};
using KernelPools = std::map<std::string, KernelPool, std::less<>>;
/// All of them, every table read.
const KernelPools& kernel_pools();
/// Measured work that has no law of its own, and its time: what clocks are fitted to.
struct MeasuredRow {
  Work work;
  double us = 0;
};
std::vector<MeasuredRow> measured_rows();
/// The GPU they were measured on.
const Device& measured_device();
/// The pool's name with another word in it; empty where the word does not occur.
std::string instead(std::string_view pool, std::string_view word, std::string_view other);
/// The pools of the same operations in fp32, and in the other layout; empty where there are none.
std::string in_fp32(std::string_view pool);
std::string in_other_layout(std::string_view pool);
/// Null where nothing of the kind was measured.
const KernelPool* kernel_pool(const std::string& name);

/// Clocks fitted anew to the measured rows that each of them bounds: what clocks/*.csv holds. For tools/fit_clocks.py.
struct FittedClock {
  std::string_view name;
  double clocks = 0;
  std::size_t rows = 0;  ///< whose bound follows it
  double off = 0;        ///< the median of |log(measured / bound)| over them
};
std::vector<FittedClock> fit_clocks();

}  // namespace foretrace::hardware
