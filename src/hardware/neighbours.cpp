#include "hardware/neighbours.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
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
  by_axis_.clear();
}

void Neighbours::complete() {
  double widest = -1;
  for (std::size_t f = 0; f < used_ && !places_.empty(); ++f) {
    const auto [least, most] = std::minmax_element(places_.begin(), places_.end(),
                                                   [f](const Features& a, const Features& b) { return a[f] < b[f]; });
    if ((*most)[f] - (*least)[f] <= widest) continue;
    widest = (*most)[f] - (*least)[f];
    axis_ = f;
  }
  by_axis_.resize(places_.size());
  std::iota(by_axis_.begin(), by_axis_.end(), 0U);
  std::sort(by_axis_.begin(), by_axis_.end(), [this](std::uint32_t a, std::uint32_t b) {
    return std::pair(places_[a][axis_], a) < std::pair(places_[b][axis_], b);
  });
}

// Two threads that ask for the same value find the same number.
double Neighbours::value(std::size_t sample) const {
  const std::atomic_ref<double> value(samples_[sample].value);
  double known = value.load(std::memory_order_relaxed);
  if (std::isnan(known)) {
    known = value_of_(samples_[sample]);
    value.store(known, std::memory_order_relaxed);
  }
  return known;
}

const std::vector<Neighbours::Sample>& Neighbours::samples() const {
  for (std::size_t i = 0; i < samples_.size(); ++i) static_cast<void>(value(i));
  return samples_;
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
  by_axis_.clear();
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

// As far as it matters: a distance of `enough` or more may come out shorter than it is, but not below `enough`.
double squared_distance_below(const Features& a, const Features& b, std::size_t used, double enough) {
  double sum = 0;
  std::size_t f = 0;
  for (; f + 4 <= used && sum < enough; f += 4) {
    for (std::size_t k = f; k < f + 4; ++k) sum += (a[k] - b[k]) * (a[k] - b[k]);
  }
  for (; f < used && sum < enough; ++f) sum += (a[f] - b[f]) * (a[f] - b[f]);
  return sum;
}

}  // namespace

/// The nearest samples of a place and, behind them, perhaps one of the asker's; their correlations, factorised (Cholesky). The
/// factors of the first n do not change when one more comes behind them, so that one factorisation answers both questions.
class Neighbours::Solution {
 public:
  Solution(const Neighbours& pool, const Features& place, const SampleFilter& filter, const std::optional<Sample>& own)
      : noise_(pool.scales_.noise), middle_(pool.scales_.middle) {
    const Features here = pool.scaled(place);
    find_nearest(pool, here, filter);
    std::array<Features, kMaxSamples> where;
    const bool smooth = pool.scales_.smooth;
    for (std::size_t i = 0; i < nearest_; ++i) {
      where[i] = pool.places_[near_[i].second];
      value_[i] = pool.value(near_[i].second);
      to_here_[i] = correlation(near_[i].first, smooth);
    }
    n_ = nearest_;
    if (own) {
      where[n_] = pool.scaled(own->at);
      value_[n_] = own->value;
      to_here_[n_] = correlation(squared_distance(where[n_], here, pool.used_), smooth);
      ++n_;
    }
    for (std::size_t i = 0; i < n_; ++i) {
      for (std::size_t j = 0; j < i; ++j)
        element(i, j) = correlation(squared_distance(where[i], where[j], pool.used_), smooth);
      element(i, i) = 1 + (i < nearest_ ? noise_ : 0);
    }
    factorise();
  }

  [[nodiscard]] std::size_t nearest() const { return nearest_; }
  [[nodiscard]] std::size_t all() const { return n_; }
  /// What the first n of them say.
  [[nodiscard]] Prediction predicted_by(std::size_t n) const {
    if (n == 0) return {};
    std::array<double, kMaxSamples> ones{}, weights = to_here_;
    for (std::size_t i = 0; i < n; ++i) ones[i] = 1;
    solve(ones, n);
    solve(weights, n);
    double sum = 0, mean = 0;
    for (std::size_t i = 0; i < n; ++i) {
      sum += ones[i];
      mean += ones[i] * value_[i];
    }
    mean /= sum;
    Prediction out{.value = mean, .variance = 1 + noise_};
    double explained = 0, weight = 0;
    for (std::size_t i = 0; i < n; ++i) {
      out.value += weights[i] * (value_[i] - mean);
      explained += weights[i] * to_here_[i];
      weight += weights[i];
    }
    out.variance = std::max(noise_, out.variance - explained + (1 - weight) * (1 - weight) / sum);
    out.mean = out.value;
    if (middle_ > 0) {
      for (std::size_t i = 0; i < n; ++i) weights[i] += (1 - weight) / sum * ones[i];  // what the mean takes of each
      out.value += middle_ * (median(weights, n) - out.value);
    }
    return out;
  }

 private:
  static constexpr std::size_t kMaxSamples = kNearest + 1;

  [[nodiscard]] auto heap() { return near_.begin() + static_cast<std::ptrdiff_t>(nearest_); }

  // In the order of their distance; of two that are as far away the first counts.
  void find_nearest(const Neighbours& pool, const Features& here, const SampleFilter& filter) {
    if (pool.by_axis_.empty()) {
      for (std::size_t i = 0; i < pool.samples_.size(); ++i) look_at(pool, i, here, filter);
    } else {
      search_from(pool, here, filter);
    }
    std::sort_heap(near_.begin(), heap());
  }

  // Outwards along the axis, to both sides, until what is left is too far away in that alone.
  void search_from(const Neighbours& pool, const Features& here, const SampleFilter& filter) {
    const std::vector<std::uint32_t>& order = pool.by_axis_;
    const auto gap = [&](std::size_t k) { return std::abs(pool.places_[order[k]][pool.axis_] - here[pool.axis_]); };
    std::size_t above = static_cast<std::size_t>(
        std::lower_bound(order.begin(), order.end(), here[pool.axis_],
                         [&](std::uint32_t i, double at) { return pool.places_[i][pool.axis_] < at; }) -
        order.begin());
    std::size_t below = above;  // the next one down is in front of it
    while (below > 0 || above < order.size()) {
      const bool down = above == order.size() || (below > 0 && gap(below - 1) < gap(above));
      const std::size_t k = down ? --below : above++;
      if (nearest_ == kNearest && gap(k) * gap(k) > near_.front().first) return;
      look_at(pool, order[k], here, filter);
    }
  }

  void look_at(const Neighbours& pool, std::size_t i, const Features& here, const SampleFilter& filter) {
    const Sample& sample = pool.samples_[i];
    if (filter.left_out != kNoGroup && sample.group == filter.left_out) return;
    if (!filter.misguessed && sample.choice == Choice::kMisguessed) return;
    if (nearest_ == kNearest) {
      const double furthest = near_.front().first;
      if (squared_distance_below(pool.places_[i], here, pool.used_, furthest) > furthest) return;
    }
    const std::pair<double, std::size_t> found{squared_distance(pool.places_[i], here, pool.used_), i};
    if (nearest_ == kNearest) {
      if (!(found < near_.front())) return;
      std::pop_heap(near_.begin(), heap());
      --nearest_;
    }
    near_[nearest_++] = found;
    std::push_heap(near_.begin(), heap());
  }

  double& element(std::size_t i, std::size_t j) { return a_[i * kMaxSamples + j]; }
  [[nodiscard]] double element(std::size_t i, std::size_t j) const { return a_[i * kMaxSamples + j]; }
  void factorise() {
    for (std::size_t j = 0; j < n_; ++j) {
      for (std::size_t i = j; i < n_; ++i) {
        double sum = element(i, j);
        for (std::size_t k = 0; k < j; ++k) sum -= element(i, k) * element(j, k);
        element(i, j) = i == j ? std::sqrt(std::max(sum, 1e-12)) : sum / element(j, j);
      }
    }
  }
  void solve(std::array<double, kMaxSamples>& x, std::size_t n) const {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < i; ++k) x[i] -= element(i, k) * x[k];
      x[i] /= element(i, i);
    }
    for (std::size_t i = n; i-- > 0;) {
      for (std::size_t k = i + 1; k < n; ++k) x[i] -= element(k, i) * x[k];
      x[i] /= element(i, i);
    }
  }

  /// Each value stands in the middle of its weight; between two is what is between them. Weights below 0 carry a trend on and
  /// vote for nothing.
  [[nodiscard]] double median(const std::array<double, kMaxSamples>& weights, std::size_t n) const {
    std::array<std::size_t, kMaxSamples> order{};
    std::iota(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n), 0);
    std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(n),
              [&](std::size_t a, std::size_t b) { return std::pair(value_[a], a) < std::pair(value_[b], b); });
    double all = 0;
    for (std::size_t i = 0; i < n; ++i) all += std::max(0.0, weights[i]);
    double below = 0, last_at = 0, last = value_[order[0]];
    for (std::size_t i = 0; i < n; ++i) {
      const double weight = std::max(0.0, weights[order[i]]), value = value_[order[i]];
      const double at = below + weight / 2;
      if (at >= all / 2) {
        return at > last_at ? last + (value - last) * (all / 2 - last_at) / (at - last_at) : value;
      }
      below += weight;
      if (weight > 0) {
        last_at = at;
        last = value;
      }
    }
    return last;
  }

  double noise_, middle_;
  std::size_t nearest_ = 0, n_ = 0;
  std::array<std::pair<double, std::size_t>, kNearest> near_;
  std::array<double, kMaxSamples> value_{}, to_here_{};
  std::array<double, kMaxSamples * kMaxSamples> a_;  // the lower triangle
};

Neighbours::Prediction Neighbours::at(const Features& place, const SampleFilter& filter) const {
  const Solution s(*this, place, filter, std::nullopt);
  return s.predicted_by(s.nearest());
}

Neighbours::Answers Neighbours::with_own(const Features& place, const std::optional<Sample>& own,
                                         const SampleFilter& filter) const {
  const Solution s(*this, place, filter, own);
  const Prediction out = s.predicted_by(s.nearest());
  return {out, own ? s.predicted_by(s.all()) : out};
}

}  // namespace foretrace::hardware
