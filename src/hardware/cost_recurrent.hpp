#pragma once
// The time of a recurrent layer by its law: the sum of its parts. Used like the other laws (cost_product.hpp).

#include <string>

#include "hardware/cost_models.hpp"
#include "hardware/cost_product.hpp"
#include "hardware/laws.hpp"

namespace foretrace::hardware {

/// Whose parameters it follows: "fwd half kept".
std::string recurrent_kind(const Work& work, const Recurrent& rnn);
/// One product over all time steps, then step by step the recurrent product and the cell that waits for it; backward the same the other way
/// round and the gradients of both weights. In microseconds; 0 where sizes are not known. Grows with every size but where weights begin
/// to leave the chip, never with a better figure of the device.
double recurrent_us(const Work& work, const Recurrent& rnn, const TransferWeights& weights, const Laws& laws,
                    const Device& device);

}  // namespace foretrace::hardware
