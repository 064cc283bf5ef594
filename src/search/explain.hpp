#pragma once
// What each part of a strategy contributes: the step without it, and the part of the critical path it shortens.

#include "search/evaluate.hpp"

namespace foretrace::search {

/// Fills in `prediction` and, where wanted, `parts` for `out.best`. Parts are compared with the strategy without them, the
/// communication with that of `as_it_is`.
void explain(Evaluator& evaluator, const Strategy& as_it_is, bool parts, Optimized& out);

}  // namespace foretrace::search
