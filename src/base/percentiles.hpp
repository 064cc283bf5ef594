#pragma once
// Bands of predictions run from the 10th to the 90th percentile.

namespace foretrace {

/// Distance of the 10th and the 90th percentile of a normal distribution from its mean, in standard deviations.
inline constexpr double kTenthPercentile = 1.2816;

}  // namespace foretrace
