#pragma once
// Checks a prediction: BEFORE with the change, compared with AFTER as measured.

#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

Result<Verdict> check_prediction(const trace::Trace& before, const trace::Trace& after, const Comparison& sides,
                                 const Options& options);

}  // namespace foretrace::compare
