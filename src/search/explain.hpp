#pragma once
// What each part of a strategy is for: the step without it, and the part of the critical path it shortens.

#include "foretrace/search/optimize.hpp"

namespace foretrace::search {

/// Fills in `prediction` and `parts` for `out.best`. Parts are compared with the strategy without them, the communication with
/// that of `as_it_is`.
void explain(const analysis::Baseline& base, const Strategy& as_it_is, Optimized& out);

}  // namespace foretrace::search
