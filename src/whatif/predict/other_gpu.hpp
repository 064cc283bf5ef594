#pragma once
// The width of a band on another GPU, from errors on similar GPUs.

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

class Deviations;

/// Whether products, convolutions and attention of the step run mostly in half precision, by time.
bool mostly_half(const Model& model);
/// A step moved to another GPU is not known better than published steps on such GPUs were met.
void widen_to_learnt(Deviations& deviations, const Model& changed, const Model& base);

}  // namespace foretrace::whatif
