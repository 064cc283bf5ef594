#pragma once
// From a strategy to a model with all of its what-ifs applied, and to the figures a search compares.

#include "foretrace/search/optimize.hpp"

namespace foretrace::search {

struct Applied {
  whatif::Model model;
};
/// Declined when one of them does not apply.
Result<Applied> apply_uses(const whatif::Model& base, const std::vector<whatif::Use>& uses);

/// What a measured step is longer than its simulation, as a factor; 1 without a measurement.
double residual_of(const whatif::Model& base, std::optional<Ns> measured);

}  // namespace foretrace::search
