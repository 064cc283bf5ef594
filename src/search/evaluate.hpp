#pragma once
// From a strategy to a model with all of its what-ifs applied, and to the figures a search compares.

#include "foretrace/search/optimize.hpp"

namespace foretrace::search {

struct Applied {
  whatif::Model model;
};
/// Declined when one of them does not apply.
Result<Applied> apply_uses(const whatif::Model& base, const std::vector<whatif::Use>& uses);

/// Bytes a strategy may take: what was asked for, else the device's memory less what the driver keeps; none where unknown.
std::optional<std::int64_t> memory_limit(const whatif::Model& model, std::optional<std::int64_t> asked);

/// What a measured step is longer than its simulation, as a factor; 1 without a measurement.
double residual_of(const whatif::Model& base, std::optional<Ns> measured);

}  // namespace foretrace::search
