#pragma once
// Operations that change their element type: what they cost then, written into the draft.

#include "whatif/rewrite/autocast.hpp"
#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// Gives a row the cost it has in `precision`; returns whether it is half now. Rows that are no FP32 work, or that nobody can
/// cost, stay as they are.
bool change_precision(Model& model, Draft& draft, const Row& row, Precision precision, work::Dtype dtype);

}  // namespace foretrace::whatif
