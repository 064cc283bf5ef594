// Cholesky factorisation and Hildreth's method. The systems are small (two unknowns for each rank) and dense.

#include "ranks/quadratic.hpp"

#include <algorithm>
#include <cmath>

namespace foretrace::ranks {

void Quadratic::add_square(const SparseRow& row, double value, double weight) {
  for (const SparseRow::Entry& a : row.entries) {
    for (const SparseRow::Entry& b : row.entries) h_[a.at * n_ + b.at] += weight * a.value * b.value;
    g_[a.at] += weight * a.value * value;
  }
}

void Quadratic::factor() {
  double largest = 0;
  for (std::size_t i = 0; i < n_; ++i) largest = std::max(largest, h_[i * n_ + i]);
  const double ridge = largest > 0 ? largest * 1e-12 : 1;
  // Cholesky, then the inverse column by column.
  std::vector<double> l(n_ * n_, 0);
  for (std::size_t j = 0; j < n_; ++j) {
    double d = h_[j * n_ + j] + ridge;
    for (std::size_t k = 0; k < j; ++k) d -= l[j * n_ + k] * l[j * n_ + k];
    l[j * n_ + j] = std::sqrt(std::max(d, ridge));
    for (std::size_t i = j + 1; i < n_; ++i) {
      double s = h_[i * n_ + j];
      for (std::size_t k = 0; k < j; ++k) s -= l[i * n_ + k] * l[j * n_ + k];
      l[i * n_ + j] = s / l[j * n_ + j];
    }
  }
  inverse_.assign(n_ * n_, 0);
  std::vector<double> y(n_);
  for (std::size_t c = 0; c < n_; ++c) {
    std::fill(y.begin(), y.end(), 0.0);
    for (std::size_t i = c; i < n_; ++i) {
      double s = i == c ? 1 : 0;
      for (std::size_t k = c; k < i; ++k) s -= l[i * n_ + k] * y[k];
      y[i] = s / l[i * n_ + i];
    }
    for (std::size_t i = n_; i-- > 0;) {
      double s = y[i];
      for (std::size_t k = i + 1; k < n_; ++k) s -= l[k * n_ + i] * inverse_[k * n_ + c];
      inverse_[i * n_ + c] = s / l[i * n_ + i];
    }
  }
}

std::vector<double> Quadratic::minimum() const {
  std::vector<double> x(n_, 0);
  for (std::size_t i = 0; i < n_; ++i) {
    for (std::size_t k = 0; k < n_; ++k) x[i] -= inverse_[i * n_ + k] * g_[k];
  }
  return x;
}

void Quadratic::satisfy(std::vector<Constraint>& constraints, std::vector<double>& x, double strength,
                        double tolerance) const {
  // The direction each constraint pushes along, H^-1 a, and how far a unit of its multiplier moves it, a' H^-1 a.
  std::vector<std::vector<double>> push(constraints.size());
  std::vector<double> reach(constraints.size());
  for (std::size_t c = 0; c < constraints.size(); ++c) {
    push[c].assign(n_, 0);
    for (const SparseRow::Entry& e : constraints[c].row.entries) {
      for (std::size_t i = 0; i < n_; ++i) push[c][i] += inverse_[i * n_ + e.at] * e.value;
    }
    reach[c] = constraints[c].row.dot(push[c]);
  }
  constexpr int kMostRounds = 5'000;
  for (int round = 0; round < kMostRounds; ++round) {
    double moved = 0;
    for (std::size_t c = 0; c < constraints.size(); ++c) {
      Constraint& constraint = constraints[c];
      if (!(reach[c] > 0)) continue;
      const double excess = constraint.row.dot(x) - constraint.bound;
      const double wanted = std::clamp(constraint.multiplier + excess / reach[c], 0.0, strength);
      const double change = wanted - constraint.multiplier;
      if (change == 0) continue;
      constraint.multiplier = wanted;
      for (std::size_t i = 0; i < n_; ++i) x[i] -= change * push[c][i];
      moved = std::max(moved, std::abs(change) * reach[c]);
    }
    if (moved < tolerance) break;
  }
}

}  // namespace foretrace::ranks
