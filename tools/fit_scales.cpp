// How well measured kernels predict each other, and the search for the scales of features under which they do it best.

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "kernel_fit.hpp"

namespace foretrace::hardware {

const MeasuredCategories& measured_categories() {
  return Tables::shipped().kernels().all(std::string(DataFiles::shipped().reference_device()));
}

namespace {

std::vector<double> errors_of(const Neighbours& pool) {
  std::vector<double> out;
  for (const Neighbours::Sample& s : pool.samples()) {
    out.push_back(pool.at(s.at, {.left_out = s.group}).value - s.value);
  }
  return out;
}

// A layer with another batch lies elsewhere: what has a group and a place in common is one shape.
Neighbours by_shape(const Neighbours& pool) {
  std::map<std::pair<std::uint32_t, Features>, std::uint32_t> shapes;
  std::vector<Neighbours::Sample> samples = pool.samples();
  for (Neighbours::Sample& s : samples) {
    s.group = shapes.try_emplace({s.group, s.at}, static_cast<std::uint32_t>(shapes.size())).first->second;
  }
  return pool.with(samples);
}

}  // namespace

std::vector<MeasuredPool> measured_pools() {
  std::vector<MeasuredPool> out;
  for (const auto& [name, category] : measured_categories()) {
    out.push_back(
        {name, category.samples.samples(), errors_of(category.samples), errors_of(by_shape(category.samples))});
  }
  return out;
}

// A family's place among the features (src/hardware/kernel_features.cpp).
std::vector<LeftOutFamily> left_out_families() {
  struct Kind {
    std::string_view what;
    std::size_t feature;
    double usual;
  };
  static constexpr Kind kKinds[] = {
      {"group count", 13, -1}, {"dilation", 9, 0}, {"filter size", 6, -1}, {"stride", 8, 0}};
  std::vector<LeftOutFamily> out;
  for (const auto& [name, category] : measured_categories()) {
    if (!name.starts_with("conv ")) continue;
    for (const Kind& kind : kKinds) {
      // All samples with one value are left out together; the value that most have is no neighbouring family.
      std::map<double, std::uint32_t> values;
      Neighbours refitted = category.samples;
      std::vector<Neighbours::Sample> samples = refitted.samples();
      for (Neighbours::Sample& s : samples) {
        s.group = values.try_emplace(s.at[kind.feature], static_cast<std::uint32_t>(values.size())).first->second;
      }
      if (values.size() < 3) continue;
      const Neighbours regrouped = refitted.with(samples);
      LeftOutFamily one{name, std::string(kind.what), {}};
      for (const Neighbours::Sample& s : samples) {
        if (s.at[kind.feature] == kind.usual) continue;
        one.errors.push_back(regrouped.at(s.at, {.left_out = s.group}).value - s.value);
      }
      out.push_back(std::move(one));
    }
  }
  return out;
}

namespace {

// Difference of the log time between shapes that were measured both ways: the mean of the middle half, since a few of the
// guesses are wrong by tens of times. Trying cannot make it slower. Of fewer convolutions than have a middle half (four) it is what one of them does at
// its batch sizes.
double tuning_of(const MeasuredCategory& category) {
  std::vector<double> all;
  std::set<std::uint32_t> convolutions;
  const std::vector<Neighbours::Sample>& samples = category.samples.samples();
  for (const Neighbours::Sample& tried : samples) {
    if (tried.choice != Choice::kAutotuned) continue;
    for (const Neighbours::Sample& guessed : samples) {
      if (guessed.choice == Choice::kAutotuned || guessed.at != tried.at) continue;
      all.push_back(tried.value + category.autotuning - guessed.value);
      convolutions.insert(guessed.group);
    }
  }
  if (convolutions.size() < 4) return 0;
  std::sort(all.begin(), all.end());
  const std::size_t quarter = all.size() / 4;
  double sum = 0;
  for (std::size_t i = quarter; i < all.size() - quarter; ++i) sum += all[i];
  return all.empty() ? 0 : std::min(0.0, sum / static_cast<double>(all.size() - 2 * quarter));
}

Neighbours without_tuning(const MeasuredCategory& category, double tuned) {
  std::vector<Neighbours::Sample> samples = category.samples.samples();
  for (Neighbours::Sample& s : samples) {
    if (s.choice == Choice::kAutotuned) s.value += category.autotuning - tuned;
  }
  return category.samples.with(samples);
}

}  // namespace

std::vector<LeftOutChange> left_out_changes() {
  std::vector<LeftOutChange> out;
  for (const auto& [name, category] : measured_categories()) {
    LeftOutChange batch{name, "another batch", {}};
    std::map<std::uint32_t, std::vector<const Neighbours::Sample*>> of_group;
    for (const Neighbours::Sample& s : category.samples.samples()) of_group[s.group].push_back(&s);
    for (const auto& [group, all] : of_group) {
      for (const Neighbours::Sample* to : all) {
        for (const Neighbours::Sample* from : all) {
          if (from->shape == to->shape) continue;
          const double more = from->value - category.samples.at(from->at, {.left_out = group}).mean;
          const Neighbours::Answers answers = category.samples.with_own(to->at, *from, {.left_out = group});
          batch.errors.push_back((answers.with_own.mean + (answers.alone.mean + more)) / 2 - to->value);
        }
      }
    }
    if (!batch.errors.empty()) out.push_back(std::move(batch));
  }
  for (const auto& [name, category] : measured_categories()) {
    for (const auto& [from_name, from] : measured_categories()) {
      const double correlation = Tables::shipped().kernels().correlation(name, from_name, from.measured_on.name);
      if (name == from_name || !(correlation > 0)) continue;
      std::map<std::uint32_t, const Neighbours::Sample*> of_shape;
      for (const Neighbours::Sample& s : from.samples.samples()) of_shape[s.shape] = &s;
      LeftOutChange change{name, "another precision or layout", {}};
      for (const Neighbours::Sample& s : category.samples.samples()) {
        const auto it = of_shape.find(s.shape);
        if (it == of_shape.end()) continue;
        const Neighbours::SampleFilter filter{.left_out = s.group};
        const double more = it->second->value - from.samples.at(it->second->at, filter).value;
        change.errors.push_back(category.samples.at(s.at, filter).value + correlation * more - s.value);
      }
      out.push_back(std::move(change));
    }
  }
  return out;
}

namespace {

// Mean absolute error of the logarithm; beyond a factor of e an error is an error.
double left_out_error(Neighbours& pool, const Scales& scales, std::size_t step) {
  pool.rescale(scales);
  double sum = 0;
  std::size_t asked = 0;
  for (std::size_t i = 0; i < pool.size(); i += step, ++asked) {
    const Neighbours::Sample& one = pool.samples()[i];
    sum += std::min(1.0, std::abs(pool.at(one.at, {.left_out = one.group}).value - one.value));
  }
  return sum / static_cast<double>(std::max<std::size_t>(1, asked));
}

// Three digits are more than the search can tell apart, and a file gives them back exactly.
double rounded(double v) {
  if (v == 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(v)) - 2);
  return std::round(v / unit) * unit;
}

/// A search for the scales under which a pool tells its groups best, along one feature after the other.
class Search {
 public:
  /// `step`: only every so many samples are asked.
  Search(Neighbours pool, std::size_t features, const Scales& from, std::size_t step)
      : pool_(std::move(pool)), features_(features), step_(step), here_(from), error_(error_of(from)) {}

  [[nodiscard]] const Scales& found() const { return here_; }
  [[nodiscard]] double error() const { return error_; }

  /// Each feature by each of the factors, then all of them together, and the noise. A factor of 0 leaves a feature out.
  void round(const std::vector<double>& factors) {
    constexpr double kReturn = 0.05;  // of the search, as the factors are
    for (std::size_t f = 0; f < features_; ++f) {
      const double was = here_.scales[f];
      for (const double factor : factors) {
        Scales other = here_;
        other.scales[f] = was == 0 && factor > 1 ? kReturn * factor : was * factor;
        attempt(other);
      }
    }
    for (const double factor : {0.7, 1.4}) {  // of the search: about half and twice in two rounds
      Scales other = here_;
      for (double& s : other.scales) s *= factor;
      attempt(other);
    }
    for (const double factor : {0.3, 3.0}) {  // of the search: half an order of magnitude
      Scales other = here_;
      other.noise *= factor;
      attempt(other);
    }
  }
  void middle() {
    for (const double share : {0.0, 0.25, 0.5, 0.75, 1.0}) {  // of the search: quarters
      Scales other = here_;
      other.middle = share;
      attempt(other);
    }
  }

 private:
  void attempt(Scales other) {
    for (double& s : other.scales) s = rounded(s);
    other.noise = rounded(other.noise);
    if (other == here_) return;
    if (const double e = error_of(other); e < error_ - 1e-5) {
      error_ = e;
      here_ = other;
    }
  }
  double error_of(const Scales& scales) { return left_out_error(pool_, scales, step_); }

  Neighbours pool_;
  std::size_t features_, step_;
  Scales here_;
  double error_;
};

// Of a large pool every few samples say as much of the scales; choices of ours, for the time the search takes.
constexpr std::size_t kLarge = 1500, kEnough = 400;

}  // namespace

static Scales refine_scales(const Neighbours& pool, std::size_t features, const Scales& from) {
  // In a small pool, which was asked whole before, more rounds and medians of a few neighbours fit what does not hold elsewhere: half the
  // layers of grouped convolutions were predicted worse by the other half.
  if (pool.size() <= kLarge) return from;
  Search search(pool, features, from, 1);
  search.middle();
  search.round({0, 0.5, 2});  // of the search, as in the rounds before
  search.round({0.7, 1.4});   // of the search, too
  search.middle();
  return search.found();
}

static Scales fit_scales(const Neighbours& pool, std::size_t features) {
  // Factors of the search, round by round. Choices of ours: what they find is in kernels/*.scales.csv.
  static const std::vector<std::vector<double>> kFactors = {{0, 0.3, 3}, {0, 0.5, 2}, {0.7, 1.4}};
  constexpr double kStart = 0.15;
  const std::size_t step = pool.size() > kLarge ? pool.size() / kEnough : 1;
  Scales best;
  double least = 2;  // more than any error
  for (const bool smooth : {false, true}) {
    Scales from{.smooth = smooth};
    for (std::size_t f = 0; f < features; ++f) from.scales[f] = kStart;
    Search search(pool, features, from, step);
    for (const std::vector<double>& factors : kFactors) search.round(factors);
    if (search.error() < least) {
      least = search.error();
      best = search.found();
    }
  }
  return refine_scales(pool, features, best);
}

// The other half type of a convolution in bf16; empty for all others.
static std::string in_fp16(std::string name) {
  const std::size_t at = name.find("bf16");
  return name.starts_with("conv ") && at != std::string::npos ? name.replace(at, 4, "fp16") : std::string();
}

std::vector<PoolScales> fit_pools(std::string_view only, bool further) {
  const auto search = [&](const MeasuredCategory& category) {
    const Neighbours samples = without_tuning(category, tuning_of(category));
    return further ? refine_scales(samples, category.features, samples.scales())
                   : fit_scales(samples, category.features);
  };
  struct Fitted {
    MeasuredPool pool;
    Scales scales;
    double spread, tuned;
    std::size_t features;
  };
  std::map<std::string, Fitted, std::less<>> all;
  for (const auto& [name, category] : measured_categories()) {
    if (!name.starts_with(only)) continue;
    // Convolutions run the same kernels in both half types, and take twice the time to fit apart.
    const std::string as = in_fp16(name);
    const auto half = all.find(as);
    const auto again = half == all.end() ? measured_categories().find(as) : measured_categories().end();
    const double tuned = tuning_of(category);
    const Scales scales = half != all.end()                      ? half->second.scales
                          : again != measured_categories().end() ? search(again->second)
                                                                 : search(category);
    Neighbours refitted = without_tuning(category, tuned);
    refitted.rescale(scales);
    // How far the error is from what the distance to the neighbours alone would say: two of three lie within a standard deviation.
    std::vector<double> relative;
    for (const Neighbours::Sample& s : refitted.samples()) {
      const Neighbours::Prediction t = refitted.at(s.at, {.left_out = s.group});
      relative.push_back(std::abs(t.value - s.value) / std::sqrt(t.variance));
    }
    const auto two_thirds = relative.begin() + static_cast<std::ptrdiff_t>(relative.size() * 683 / 1000);
    std::nth_element(relative.begin(), two_thirds, relative.end());
    MeasuredPool measured{name, refitted.samples(), errors_of(refitted), {}};
    all.emplace(name, Fitted{std::move(measured), scales, *two_thirds, tuned, category.features});
  }
  std::vector<PoolScales> out;
  for (const auto& [name, one] : all) {
    out.push_back({name, one.pool.samples.size(), one.spread, one.tuned, one.scales, one.features});
  }
  return out;
}

}  // namespace foretrace::hardware
