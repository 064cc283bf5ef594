#pragma once
// Small dense quadratic programmes: least squares with linear inequalities that are added one after another.
//
//   minimise  1/2 x'Hx + g'x   subject to   a_c'x <= b_c,   each held with at most `strength` (an exact penalty:
//   constraints that contradict each other are relaxed, so that the solution stays finite)

#include <cstddef>
#include <vector>

namespace foretrace::ranks {

/// A row with few entries.
struct SparseRow {
  struct Entry {
    std::size_t at;
    double value;
  };
  std::vector<Entry> entries;
  [[nodiscard]] double dot(const std::vector<double>& x) const {
    double sum = 0;
    for (const Entry& e : entries) sum += e.value * x[e.at];
    return sum;
  }
};

class Quadratic {
 public:
  explicit Quadratic(std::size_t n) : n_(n), h_(n * n, 0), g_(n, 0) {}
  [[nodiscard]] std::size_t size() const { return n_; }
  /// Adds weight/2 (row x + value)^2.
  void add_square(const SparseRow& row, double value, double weight);
  /// Adds to one place of H; the caller keeps it symmetric.
  void add(std::size_t i, std::size_t j, double value) { h_[i * n_ + j] += value; }
  /// Inverts H; a tiny multiple of the unit matrix makes it definite.
  void factor();
  /// The unconstrained minimum. After factor().
  [[nodiscard]] std::vector<double> minimum() const;
  /// Of the inverse of H: variances of the unknowns where squares are weighed by 1/variance. After factor().
  [[nodiscard]] double variance(std::size_t i) const { return inverse_[i * n_ + i]; }

  struct Constraint {
    SparseRow row;
    double bound = 0;
    double multiplier = 0;
  };
  /// Moves x, which minimises for the present multipliers, to where all constraints hold: Hildreth's method, one
  /// multiplier at a time. After factor().
  void satisfy(std::vector<Constraint>& constraints, std::vector<double>& x, double strength, double tolerance) const;

 private:
  std::size_t n_;
  std::vector<double> h_, g_, inverse_;
};

}  // namespace foretrace::ranks
