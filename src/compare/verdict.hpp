#pragma once
// Was a prediction right? BEFORE with the change, against AFTER as measured.

#include "foretrace/compare/compare.hpp"

namespace foretrace::compare {

Result<Verdict> check_prediction(const trace::Trace& before, const trace::Trace& after, const Comparison& sides,
                                 const Options& options);

}  // namespace foretrace::compare
