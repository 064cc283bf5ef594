#pragma once
// Ordinary kriging: a quantity predicted from its nearest measured neighbours. Samples have a few features, each scaled by how much
// the quantity changes along it; the correlation of two samples falls off with their distance. At a sample the prediction is what was
// measured there, between samples something between them, far from all of them their mean. Where a library chose between two
// kernels, neighbours disagree and their mean is neither's time: scales say how much of the answer is the weighted median instead.
//
//   Neighbours pool({.scales = {0.2, 0.5}});
//   pool.add({.at = {std::log(512.0), std::log(64.0)}, .value = -0.7});
//   double log_share = pool.at({std::log(500.0), std::log(64.0)}).value;

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace foretrace::hardware {

inline constexpr std::size_t kMostFeatures = 17;
/// Features a family does not have stay 0.
using Features = std::array<double, kMostFeatures>;

struct Scales {
  Features scales{};  ///< by which each feature is multiplied; 0: it says nothing
  double noise =
      0.02;  ///< the part of the variance that even the same shape would show again; begins the search at 2 %
  bool smooth =
      false;  ///< neighbours tell a trend (Matern 3/2), not only a level (1/2): kernels that stay the same over a range
  double middle = 0;  ///< how much of the answer is the neighbours' median by their weights, not their mean: 0 to 1

  friend bool operator==(const Scales&, const Scales&) = default;
};

/// How the algorithm of a sample was chosen.
enum class Choice : std::uint8_t {
  kGuessed,     ///< by the library's heuristic, or there is one algorithm
  kAutotuned,   ///< the fastest of those that were tried
  kMisguessed,  ///< so badly guessed that autotuning would have shown it
};

class Neighbours {
 public:
  struct Sample {
    Features at{};  ///< not scaled
    double value = 0;
    std::uint32_t group = 0;   ///< samples that are left out together
    std::uint32_t shape = 0;   ///< the same in all pools of a table
    std::uint32_t column = 0;  ///< of the table
    double us = 0;             ///< measured, where the value comes later
    Choice choice = Choice::kGuessed;
  };
  struct Prediction {
    double value = 0;
    double variance =
        1;  ///< of a quantity that varies by 1 over all samples: near 0 close to a sample, near 1 far from all
    double mean = 0;  ///< the value without the median, which jumps where the majority changes: for differences
  };
  static constexpr std::uint32_t kNoGroup = static_cast<std::uint32_t>(-1);
  /// Which samples count.
  struct SampleFilter {
    std::uint32_t left_out = kNoGroup;  ///< as if that group had not been measured
    bool misguessed = true;             ///< false: without samples of bad heuristic choices, for autotuned work
  };

  Neighbours() { scales_.scales.fill(1); }
  explicit Neighbours(const Scales& scales) { rescale(scales); }

  void add(const Sample& sample);
  /// Call when all samples are added: builds an index for the nearest of a place. The answers are the same.
  void complete();
  /// Values that are kLater are computed when their sample first is a neighbour: the law of a product takes microseconds, and a step
  /// uses few of the samples.
  static constexpr double kLater = std::numeric_limits<double>::quiet_NaN();
  using ValueOf = std::function<double(const Sample&)>;
  void value_later(ValueOf value_of) { value_of_ = std::move(value_of); }

  [[nodiscard]] std::size_t size() const { return samples_.size(); }
  /// All of them, with their values.
  [[nodiscard]] const std::vector<Sample>& samples() const;
  [[nodiscard]] const Scales& scales() const { return scales_; }
  /// The prediction at a place.
  [[nodiscard]] Prediction at(const Features& place) const { return at(place, SampleFilter{}); }
  [[nodiscard]] Prediction at(const Features& place, const SampleFilter& filter) const;
  struct Answers {
    Prediction alone;     ///< by the samples alone
    Prediction with_own;  ///< and by one more sample, of the step itself; the same where there is none
  };
  [[nodiscard]] Answers with_own(const Features& place, const std::optional<Sample>& own,
                                 const SampleFilter& filter) const;
  /// Other samples, under the same scales.
  [[nodiscard]] Neighbours with(const std::vector<Sample>& samples) const;
  /// Other scales for the same samples.
  void rescale(const Scales& scales);

 private:
  static constexpr std::size_t kNearest = 24;
  class Solution;  // neighbours.cpp
  [[nodiscard]] Features scaled(const Features& at) const;
  [[nodiscard]] double value(std::size_t sample) const;

  mutable std::vector<Sample> samples_;  // values that come later are filled in
  std::vector<Features> places_;         // scaled
  std::size_t used_ = kMostFeatures;     // features behind these are 0 in all samples
  std::size_t axis_ = 0;                 // the feature in which samples are furthest apart
  std::vector<std::uint32_t> by_axis_;   // samples in its order; empty where there is none
  Scales scales_;
  ValueOf value_of_;
};

}  // namespace foretrace::hardware
