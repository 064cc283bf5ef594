#include "hardware/neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace foretrace::hardware {

Features Neighbours::scaled(const Features& at) const {
  Features out{};
  for (std::size_t f = 0; f < kMostFeatures; ++f) out[f] = at[f] * scales_.scales[f];
  return out;
}

void Neighbours::add(const Sample& sample) {
  samples_.push_back(sample);
  places_.push_back(scaled(sample.at));
}

Neighbours Neighbours::with(const std::vector<Sample>& samples) const {
  Neighbours out(scales_);
  for (const Sample& s : samples) out.add(s);
  return out;
}

void Neighbours::rescale(const Scales& scales) {
  scales_ = scales;
  for (std::size_t i = 0; i < samples_.size(); ++i) places_[i] = scaled(samples_[i].at);
  used_ = 0;
  for (std::size_t f = 0; f < kMostFeatures; ++f) {
    if (scales_.scales[f] != 0) used_ = f + 1;
  }
}

namespace {

double squared_distance(const Features& a, const Features& b, std::size_t used) {
  double sum = 0;
  for (std::size_t f = 0; f < used; ++f) sum += (a[f] - b[f]) * (a[f] - b[f]);
  return sum;
}

double correlation(double squared, bool smooth) {
  const double distance = std::sqrt(smooth ? 3 * squared : squared);
  return (smooth ? 1 + distance : 1) * std::exp(-distance);
}

// A few neighbours' correlations, factorised in place (Cholesky), and what follows from them.
template <std::size_t Most>
class Correlations {
 public:
  explicit Correlations(std::size_t n) : n_(n) {}
  double& of(std::size_t i, std::size_t j) { return a_[i * Most + j]; }
  void factorise() {
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = j; i < n_; ++i) {
        double sum = of(i, j);
        for (std::size_t k = 0; k < j; ++k) sum -= of(i, k) * of(j, k);
        of(i, j) = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / of(j, j);
      }
    }
  }
  void solve(std::array<double, Most>& x) {
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t k = 0; k < i; ++k) x[i] -= of(i, k) * x[k];
      x[i] /= of(i, i);
    }
    for (std::size_t i = n_; i-- > 0;) {
      for (std::size_t k = i + 1; k < n_; ++k) x[i] -= of(k, i) * x[k];
      x[i] /= of(i, i);
    }
  }

 private:
  std::size_t n_;
  std::array<double, Most * Most> a_{};
};

}  // namespace

Neighbours::Told Neighbours::at(const Features& place, std::uint32_t left_out, const std::optional<Sample>& own) const {
  constexpr std::size_t kMost = kNearest + 1;
  const Features here = scaled(place);
  std::array<std::pair<double, std::size_t>, kMost> near;
  std::size_t n = 0;
  for (std::size_t i = 0; i < samples_.size(); ++i) {
    if (left_out != kNoGroup && samples_[i].group == left_out) continue;
    const std::pair<double, std::size_t> one{squared_distance(places_[i], here, used_), i};
    if (n < kNearest) {
      near[n++] = one;
      std::push_heap(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(n));
    } else if (one < near.front()) {
      std::pop_heap(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(n));
      near[n - 1] = one;
      std::push_heap(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(n));
    }
  }
  std::array<Features, kMost> where;
  std::array<double, kMost> value{}, to_here{};
  for (std::size_t i = 0; i < n; ++i) {
    where[i] = places_[near[i].second];
    value[i] = samples_[near[i].second].value;
    to_here[i] = correlation(near[i].first, scales_.smooth);
  }
  if (own) {
    where[n] = scaled(own->at);
    value[n] = own->value;
    to_here[n] = correlation(squared_distance(where[n], here, used_), scales_.smooth);
    ++n;
  }
  if (n == 0) return {};
  Correlations<kMost> all(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      all.of(i, j) = i == j ? 1 + (own && i + 1 == n ? 0 : scales_.noise)
                            : correlation(squared_distance(where[i], where[j], used_), scales_.smooth);
    }
  }
  all.factorise();
  std::array<double, kMost> ones{}, weights = to_here;
  for (std::size_t i = 0; i < n; ++i) ones[i] = 1;
  all.solve(ones);
  all.solve(weights);
  double sum = 0, mean = 0;
  for (std::size_t i = 0; i < n; ++i) {
    sum += ones[i];
    mean += ones[i] * value[i];
  }
  mean /= sum;
  Told told{mean, 1 + scales_.noise};
  double explained = 0, weight = 0;
  for (std::size_t i = 0; i < n; ++i) {
    told.value += weights[i] * (value[i] - mean);
    explained += weights[i] * to_here[i];
    weight += weights[i];
  }
  told.variance = std::max(scales_.noise, told.variance - explained + (1 - weight) * (1 - weight) / sum);
  return told;
}

namespace {

// Mean absolute error of the logarithm; beyond a factor of e an error is an error.
double left_out_error(Neighbours& pool, const Scales& scales) {
  pool.rescale(scales);
  double sum = 0;
  for (const Neighbours::Sample& one : pool.samples()) {
    sum += std::min(1.0, std::abs(pool.at(one.at, one.group).value - one.value));
  }
  return sum / static_cast<double>(std::max<std::size_t>(1, pool.size()));
}

// Three digits are more than the search can tell apart, and a file gives them back exactly.
double rounded(double v) {
  if (v == 0) return 0;
  const double unit = std::pow(10.0, std::floor(std::log10(v)) - 2);
  return std::round(v / unit) * unit;
}

}  // namespace

Scales fit_scales(Neighbours pool, std::size_t features) {
  // Steps of the search, round by round; 0 leaves a feature out.
  static const std::vector<std::vector<double>> kSteps = {{0, 0.3, 3}, {0, 0.5, 2}, {0.7, 1.4}};
  constexpr double kStart = 0.15, kReturn = 0.05;
  Scales best;
  double least = 2;  // more than any error
  for (const bool smooth : {false, true}) {
    Scales here{.smooth = smooth};
    for (std::size_t f = 0; f < features; ++f) here.scales[f] = kStart;
    double error = left_out_error(pool, here);
    const auto attempt = [&](Scales other) {
      for (double& s : other.scales) s = rounded(s);
      other.noise = rounded(other.noise);
      if (other == here) return;
      if (const double e = left_out_error(pool, other); e < error - 1e-5) {
        error = e;
        here = other;
      }
    };
    for (const std::vector<double>& steps : kSteps) {
      for (std::size_t f = 0; f < features; ++f) {
        const double was = here.scales[f];
        for (const double step : steps) {
          Scales other = here;
          other.scales[f] = was == 0 && step > 1 ? kReturn * step : was * step;
          attempt(other);
        }
      }
      for (const double step : {0.7, 1.4}) {
        Scales other = here;
        for (double& s : other.scales) s *= step;
        attempt(other);
      }
      for (const double step : {0.3, 3.0}) {
        Scales other = here;
        other.noise *= step;
        attempt(other);
      }
    }
    if (error < least) {
      least = error;
      best = here;
    }
  }
  return best;
}

}  // namespace foretrace::hardware
