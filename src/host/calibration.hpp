#pragma once
// Adjusts the assumed speeds of CPU and GPU as little as possible so that a simulated step matches a measured one. The step is a function
// of the logarithms of five factors: the CPU time of forward, backward and update, the time of the GPU, and of loading data.
//
//   Calibration c([&](const Calibration::Vector& theta) { return step_with(theta); }, prior_covariance(prior));
//   c.solve(measured);      // the move; c.covariance() is what remains uncertain

#include <array>
#include <functional>

#include "foretrace/host/unprofiled.hpp"

namespace foretrace::host {

class Calibration {
 public:
  static constexpr std::size_t kParameters = kStepParts;
  using Vector = std::array<double, kParameters>;
  using Matrix = std::array<Vector, kParameters>;

  Calibration(std::function<double(const Vector&)> step, const Matrix& covariance)
      : step_(std::move(step)), covariance_(covariance) {}

  /// The smallest move, weighed by the covariance, that meets the measured step: Gauss-Newton, halving steps that overshoot.
  Vector solve(double measured);
  [[nodiscard]] const Matrix& covariance() const { return covariance_; }

 private:
  [[nodiscard]] Vector gradient(const Vector& theta) const;

  std::function<double(const Vector&)> step_;
  Matrix covariance_;
};

/// Phases share an error (the host) and have one each; a phase that was timed has only the error of its timing.
Calibration::Matrix prior_covariance(const CpuPrior& prior);

}  // namespace foretrace::host
