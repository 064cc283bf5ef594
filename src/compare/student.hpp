#pragma once
// Student's t distribution: the uncertainty of a mean of few values.

namespace foretrace::compare {

/// Probability that chance gives a value at least `t` standard errors from zero, in either direction.
double two_sided_p(double t, double freedom);

/// The number of standard errors that chance exceeds with this probability, in either direction: of 0.05, 1.96 for many degrees of
/// freedom and 2.57 for five.
double two_sided_quantile(double probability, double freedom);

}  // namespace foretrace::compare
