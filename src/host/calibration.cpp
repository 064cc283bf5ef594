#include "host/calibration.hpp"

#include <cmath>

#include "hardware/figures.hpp"

namespace foretrace::host {

namespace {

using Vector = Calibration::Vector;
using Matrix = Calibration::Matrix;

// A measured step repeats to less: 0.3 % between processes (10 models of data/h200-clean), 0.5 % within one. A user's figure is not
// known better than this.
constexpr double kMeasuredSpread = 0.01;

Vector times(const Matrix& m, const Vector& v) {
  Vector out{};
  for (std::size_t i = 0; i < Calibration::kParameters; ++i) {
    for (std::size_t j = 0; j < Calibration::kParameters; ++j) out[i] += m[i][j] * v[j];
  }
  return out;
}

double dot(const Vector& a, const Vector& b) {
  double sum = 0;
  for (std::size_t i = 0; i < Calibration::kParameters; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

Calibration::Matrix prior_covariance(const CpuPrior& prior) {
  Calibration::Matrix s{};
  for (std::size_t i = 0; i < kCpuPhases; ++i) {
    if (prior.timed_share[i]) {
      s[i][i] = prior.timed_sigma * prior.timed_sigma;
      continue;
    }
    for (std::size_t j = 0; j < kCpuPhases; ++j) {
      if (!prior.timed_share[j]) s[i][j] = prior.host.uncertainty.shared * prior.host.uncertainty.shared;
    }
    s[i][i] += prior.host.uncertainty.phase[i] * prior.host.uncertainty.phase[i];
  }
  const double repeats = hardware::measured_figures().gpu_repeat;
  s[kGpuPart][kGpuPart] = repeats * repeats;
  s[kLoadingPart][kLoadingPart] = prior.host.uncertainty.loading * prior.host.uncertainty.loading;
  return s;
}

// d step / d theta, by central differences. The step is piecewise linear in the costs, so that these finite differences are wide: 1 and 2 %.
Calibration::Vector Calibration::gradient(const Vector& theta) const {
  Vector g{};
  for (std::size_t i = 0; i < kParameters; ++i) {
    const double h = i == kGpuPart ? 0.01 : 0.02;  // finite differences
    Vector up = theta;
    Vector down = theta;
    up[i] += h;
    down[i] -= h;
    g[i] = (step_(up) - step_(down)) / (2 * h);
  }
  return g;
}

Calibration::Vector Calibration::solve(double measured) {
  const double spread = kMeasuredSpread * measured;
  Vector theta{};
  double off = step_(theta) - measured;
  for (int round = 0; round < 4; ++round) {
    const Vector g = gradient(theta);
    const Vector sg = times(covariance_, g);
    const double target = dot(g, theta) - off;
    const double gain = target / (dot(g, sg) + spread * spread);
    Vector next{};
    for (std::size_t i = 0; i < kParameters; ++i) next[i] = gain * sg[i];
    bool improved = false;
    for (double part = 1; part > 0.1; part /= 2) {
      Vector trial{};
      for (std::size_t i = 0; i < kParameters; ++i) trial[i] = theta[i] + part * (next[i] - theta[i]);
      const double trial_off = step_(trial) - measured;
      if (std::abs(trial_off) < std::abs(off)) {
        theta = trial;
        off = trial_off;
        improved = true;
        break;
      }
    }
    if (!improved || std::abs(off) < 0.001 * measured) break;
  }
  // What the measured step determined is known better now; the rest is as uncertain as before.
  const Vector g = gradient(theta);
  const Vector sg = times(covariance_, g);
  const double scale = dot(g, sg) + spread * spread;
  for (std::size_t i = 0; i < kParameters; ++i) {
    for (std::size_t j = 0; j < kParameters; ++j) covariance_[i][j] -= sg[i] * sg[j] / scale;
  }
  return theta;
}

}  // namespace foretrace::host
