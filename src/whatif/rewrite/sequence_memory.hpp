#pragma once
// Memory of a step whose sequences are longer or shorter.

#include "whatif/dataflow/sequence_shapes.hpp"

namespace foretrace::whatif {

/// Every block of the curve that holds positions becomes as large as its tensor does: tokens and what layers keep of them x
/// times, scores x times x, what belongs to parameters and samples not at all. The model must have a curve, and its
/// `pass_samples` be those before this change.
void lengthen_memory(Model& model, const SequenceShapes& shapes, double x);

}  // namespace foretrace::whatif
