// The tail of Student's distribution is an incomplete beta function, computed by its continued fraction (Abramowitz and Stegun,
// 26.5.8 and 26.7.1; Lentz's method).

#include "compare/student.hpp"

#include <cmath>

namespace foretrace::compare {
namespace {

double beta_fraction(double a, double b, double x) {
  constexpr double kTiny = 1e-300, kPrecise = 1e-14;
  constexpr int kMostTerms = 500;
  const auto safe = [](double v) { return std::abs(v) < kTiny ? kTiny : v; };
  double c = 1, d = 1 / safe(1 - (a + b) * x / (a + 1)), value = d;
  for (int m = 1; m <= kMostTerms; ++m) {
    const double even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));
    const double odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1));
    double factor = 1;
    for (const double term : {even, odd}) {
      d = 1 / safe(1 + term * d);
      c = safe(1 + term / c);
      factor = c * d;
      value *= factor;
    }
    if (std::abs(factor - 1) < kPrecise) break;
  }
  return value;
}

// The regularized incomplete beta function.
double incomplete_beta(double a, double b, double x) {
  if (x <= 0) return 0;
  if (x >= 1) return 1;
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  return x < (a + 1) / (a + b + 2) ? front * beta_fraction(a, b, x) / a : 1 - front * beta_fraction(b, a, 1 - x) / b;
}

}  // namespace

double two_sided_p(double t, double freedom) { return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t)); }

double two_sided_quantile(double probability, double freedom) {
  double low = 0, high = 1000;
  for (int halving = 0; halving < 60; ++halving) {
    const double middle = (low + high) / 2;
    (two_sided_p(middle, freedom) > probability ? low : high) = middle;
  }
  return high;
}

}  // namespace foretrace::compare
