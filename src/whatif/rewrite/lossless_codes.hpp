#pragma once
// Gist's lossless codes for what waits for the backward pass: a bit for each element of a ReLU, a byte for each result of a pooling layer after
// one, and no zeros in the inputs that convolutions keep of either.

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Puts them into a step and its memory. `zeros`: the share of what a ReLU writes that is zero.
Status encode_losslessly(Model& model, Draft& draft, double zeros);

}  // namespace foretrace::whatif
