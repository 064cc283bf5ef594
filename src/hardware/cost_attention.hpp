#pragma once
// The time of fused attention by its law. What-ifs take the ratio of two laws, before and after a change, corrected by the residual of
// measured kernels (estimate.cpp). Moving to another GPU takes the ratio of the law on both GPUs (transfer.cpp).

#include <string>

#include "hardware/cost_models.hpp"
#include "hardware/laws.hpp"

namespace foretrace::hardware {

/// Whose parameters it follows: "fwd half masked".
std::string attention_kind(const Work& work, const Attention& attention);
/// Blocks of queries (in the gradient: of keys) of one head run on SMs in waves; a pair of query and key takes its multiplications
/// on tensor cores and its softmax concurrently, a block its loads, and the whole is never faster than memory. In microseconds; 0
/// where sizes are not known. Grows with every size, never with a better figure of the device.
double attention_us(const Work& work, const Attention& attention, const Laws& laws, const Device& device);
/// How many times the time on `from` it takes on `to`, both asked with the same parameters: what one library's kernels do otherwise than another's
/// is no difference of GPUs. 0 where sizes are not known.
double attention_ratio(const Work& work, const Attention& attention, const Laws& laws, const Device& from,
                       const Device& to);

}  // namespace foretrace::hardware
