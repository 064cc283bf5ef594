#include "hardware/neighbours.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace foretrace::hardware {

Features Neighbours::scaled(const Features& at) const {
  Features out{};
  for (std::size_t f = 0; f < kMostFeatures; ++f) out[f] = at[f] * scales_[f];
  return out;
}

void Neighbours::add(const Features& at, double value, std::uint32_t group) {
  samples_.push_back({at, value, group});
  places_.push_back(scaled(at));
}

void Neighbours::rescale(const Features& scales, double noise) {
  scales_ = scales;
  noise_ = noise;
  for (std::size_t i = 0; i < samples_.size(); ++i) places_[i] = scaled(samples_[i].at);
  used_ = 0;
  for (std::size_t f = 0; f < kMostFeatures; ++f) {
    if (scales_[f] != 0) used_ = f + 1;
  }
}

namespace {

double squared_distance(const Features& a, const Features& b, std::size_t used) {
  double sum = 0;
  for (std::size_t f = 0; f < used; ++f) sum += (a[f] - b[f]) * (a[f] - b[f]);
  return sum;
}

// A few neighbours' correlations, factorised in place (Cholesky), and what follows from them.
template <std::size_t kMost>
class Correlations {
 public:
  explicit Correlations(std::size_t n) : n_(n) {}
  double& of(std::size_t i, std::size_t j) { return a_[i * kMost + j]; }
  void factorise() {
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = j; i < n_; ++i) {
        double sum = of(i, j);
        for (std::size_t k = 0; k < j; ++k) sum -= of(i, k) * of(j, k);
        of(i, j) = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / of(j, j);
      }
    }
  }
  void solve(std::array<double, kMost>& x) {
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
  std::array<double, kMost * kMost> a_{};
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
    to_here[i] = std::exp(-std::sqrt(near[i].first));
  }
  if (own) {
    where[n] = scaled(own->at);
    value[n] = own->value;
    to_here[n] = std::exp(-std::sqrt(squared_distance(where[n], here, used_)));
    ++n;
  }
  if (n == 0) return {};
  Correlations<kMost> all(n);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      all.of(i, j) = i == j ? 1 + (own && i + 1 == n ? 0 : noise_)
                            : std::exp(-std::sqrt(squared_distance(where[i], where[j], used_)));
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
  Told told{mean, 1 + noise_};
  double explained = 0, weight = 0;
  for (std::size_t i = 0; i < n; ++i) {
    told.value += weights[i] * (value[i] - mean);
    explained += weights[i] * to_here[i];
    weight += weights[i];
  }
  told.variance = std::max(noise_, told.variance - explained + (1 - weight) * (1 - weight) / sum);
  return told;
}

FittedScales fit_scales(std::vector<Neighbours> pools, std::size_t features) {
  // Mean absolute error of the logarithm; beyond a factor of e an error is an error.
  const auto error = [&](const FittedScales& s) {
    double sum = 0;
    std::size_t count = 0;
    for (Neighbours& pool : pools) {
      pool.rescale(s.scales, s.noise);
      for (const Neighbours::Sample& one : pool.samples()) {
        sum += std::min(1.0, std::abs(pool.at(one.at, one.group).value - one.value));
        ++count;
      }
    }
    return count > 0 ? sum / static_cast<double>(count) : 0;
  };
  FittedScales best;
  for (std::size_t f = 0; f < features; ++f) best.scales[f] = 0.15;
  double least = error(best);
  const auto attempt = [&](const FittedScales& other) {
    const double e = error(other);
    if (e < least - 1e-5) {
      least = e;
      best = other;
    }
  };
  for (const std::vector<double>& factors : {std::vector<double>{0, 0.3, 3}, std::vector<double>{0.6, 1.6}}) {
    for (std::size_t f = 0; f < features; ++f) {
      const double was = best.scales[f];
      for (const double factor : factors) {
        FittedScales other = best;
        other.scales[f] = was * factor;
        if (other.scales[f] != best.scales[f]) attempt(other);
      }
    }
    const double was = best.noise;
    for (const double factor : {0.2, 4.0}) {
      FittedScales other = best;
      other.noise = was * factor;
      attempt(other);
    }
  }
  // Three digits are more than the search can tell apart, and the file gives them back exactly.
  const auto rounded = [](double v) {
    if (v == 0) return 0.0;
    const double unit = std::pow(10.0, std::floor(std::log10(v)) - 2);
    return std::round(v / unit) * unit;
  };
  for (double& s : best.scales) s = rounded(s);
  best.noise = rounded(best.noise);
  return best;
}

}  // namespace foretrace::hardware
