#pragma once
// How sure a prediction is. Errors come in families that move together: the CPU's speed, the GPU's own spread, and each
// family of kernels whose time was modelled rather than measured. One simulation per family, one standard deviation up and
// down; the deviations add in squares.

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

struct Band {
  Ns low = 0, high = 0;  ///< 10th and 90th percentile
};

/// The band around a changed model whose simulated step is `step`. `base` is the model before the change.
Band band_around(const Model& changed, const Model& base, Ns step, const simulate::Schedule* policy);

/// Standard deviation of log time for kernels of a family whose cost was modelled: leave-one-model-out residuals
/// (docs/accuracy.md).
double modelled_sigma(hardware::Family family);

}  // namespace foretrace::whatif
