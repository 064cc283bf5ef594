#pragma once
// Standard deviations of a simulated step, by family of errors. Each family moves the costs of its tasks together; what that does to the
// step is simulated, and families add in squares of logarithms.

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "foretrace/whatif/model.hpp"
#include "whatif/model/simulate_model.hpp"
#include "whatif/predict/bands.hpp"

namespace foretrace::whatif {

// The most one family's standard deviation may take off a step: all but a thousandth, a guard against the logarithm of nothing.
inline constexpr double kLargestDeviation = 0.999;

class Deviations {
 public:
  Deviations(const graph::Graph& graph, ModelRuns& runs, Ns step) : g_(graph), runs_(runs), step_(step) {}

  /// `sigma_of(task, up)` of log time, 0 where the family does not reach.
  template <class SigmaOf>
  void add_uneven(std::string family, double sigma, std::string why, SigmaOf sigma_of) {
    std::array<double, 2> ends{};
    cost_.resize(g_.size());
    for (const std::size_t way : {0, 1}) {
      const double sign = way == 0 ? 1 : -1;
      double last = 0;  // most tasks have the deviation of the one before
      double factor = 1;
      for (std::size_t t = 0; t < g_.size(); ++t) {
        const double s = sigma_of(t, way == 0);
        if (s != last) factor = std::exp(sign * s);
        last = s;
        cost_[t] = s == 0 ? g_.cost[t] : static_cast<Ns>(std::llround(static_cast<double>(g_.cost[t]) * factor));
      }
      ends[way] = static_cast<double>(runs_.run(cost_).timeline.step - step_);
    }
    const double up = std::max({ends[0], ends[1], 0.0});
    const double down = std::max({-ends[0], -ends[1], 0.0});
    // Errors are factors: where they are large, a difference would let the step end before it began.
    if (step_ > 0) {
      const auto step = static_cast<double>(step_);
      const double longer = std::log1p(up / step);
      const double shorter = -std::log1p(-std::min(down / step, kLargestDeviation));
      up_ += longer * longer;
      down_ += shorter * shorter;
    }
    band_.parts.push_back({std::move(family), sigma, static_cast<Ns>(down), static_cast<Ns>(up), std::move(why)});
  }

  template <class SigmaOf>
  void add(std::string family, double sigma, std::string why, SigmaOf sigma_of) {
    add_uneven(std::move(family), sigma, std::move(why), [&](std::size_t t, bool /*up*/) { return sigma_of(t); });
  }

  /// Of the whole step, whatever it is made of.
  void add_whole(std::string family, double sigma, std::string why) {
    const double up = static_cast<double>(step_) * std::expm1(sigma);
    const double down = -static_cast<double>(step_) * std::expm1(-sigma);
    up_ += sigma * sigma;
    down_ += sigma * sigma;
    band_.parts.push_back({std::move(family), sigma, static_cast<Ns>(down), static_cast<Ns>(up), std::move(why)});
  }

  /// Of the whole step, in one direction only: it may come out longer (`shift` above 0) or shorter, by that logarithm.
  void add_toward(std::string family, double shift, std::string why) {
    const auto distance = static_cast<Ns>(static_cast<double>(step_) * std::abs(std::expm1(shift)));
    (shift > 0 ? up_ : down_) += shift * shift;
    band_.parts.push_back(
        {std::move(family), std::abs(shift), shift > 0 ? 0 : distance, shift > 0 ? distance : 0, std::move(why)});
  }

  /// Whether the band is that wide already, in logarithms.
  [[nodiscard]] bool holds(double up, double down) const {
    return kTenthPercentile * std::sqrt(up_) >= up && kTenthPercentile * std::sqrt(down_) >= down;
  }

  /// The 90th and the 10th percentile are at least so far from the step, in logarithms; what that takes beyond the other parts is
  /// a part of its own.
  void at_least(std::string family, double up, double down, std::string why) {
    const auto beyond = [](double log, double squares) {
      const double sigma = std::max(0.0, log) / kTenthPercentile;
      return std::sqrt(std::max(0.0, sigma * sigma - squares));
    };
    const double more = beyond(up, up_);
    const double less = beyond(down, down_);
    if (more <= 0 && less <= 0) return;
    up_ += more * more;
    down_ += less * less;
    const auto step = static_cast<double>(step_);
    band_.parts.push_back({std::move(family), std::max(more, less), static_cast<Ns>(-step * std::expm1(-less)),
                           static_cast<Ns>(step * std::expm1(more)), std::move(why)});
  }

  /// Log of how the step moves when CPU tasks take `log_factor(task)` longer.
  template <class LogFactor>
  double moved(LogFactor log_factor) {
    cost_.resize(g_.size());
    for (std::size_t t = 0; t < g_.size(); ++t) {
      const double by = graph::is_gpu(g_.kind[t]) ? 0 : log_factor(t);
      cost_[t] = by == 0 ? g_.cost[t] : static_cast<Ns>(std::llround(static_cast<double>(g_.cost[t]) * std::exp(by)));
    }
    const auto end = static_cast<double>(std::max<Ns>(1, runs_.run(cost_).timeline.step));
    return step_ > 0 ? std::log(end / static_cast<double>(step_)) : 0;
  }

  Band finish() {
    const auto step = static_cast<double>(step_);
    band_.high = static_cast<Ns>(std::ceil(step * std::exp(kTenthPercentile * std::sqrt(up_))));
    band_.low = static_cast<Ns>(step * std::exp(-kTenthPercentile * std::sqrt(down_)));
    return std::move(band_);
  }

 private:
  const graph::Graph& g_;
  ModelRuns& runs_;
  Ns step_;
  std::vector<Ns> cost_;
  double up_ = 0, down_ = 0;
  Band band_;
};

}  // namespace foretrace::whatif
