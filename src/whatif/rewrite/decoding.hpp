#pragma once
// A step that generates one token per sequence reads all weights once, whatever the batch. Its products grow with the batch only where
// multiplying takes longer than reading; attention, norms and sampling grow as anywhere else.

#include <optional>

#include "whatif/rewrite/rows.hpp"

namespace foretrace::whatif {

/// What a product of a decode step takes with x times the sequences, where the trace has no shape for it. Nothing where the row is no product
/// or the step does not decode.
std::optional<hardware::Cost> decoded_product(const Model& model, const Row& row, double x);

/// Whether a kernel multiplies by the weights of some experts out of many: which, depends on the tokens.
bool uses_experts(std::string_view kernel);

/// Reading a product's weights once at the GPU's peak bandwidth, in ns; 0 where the shape or the GPU is unknown. (The second factor of a
/// product that is no batch of products is a weight.)
double weight_reading_ns(const work::Work& work, const hardware::Device& device);

}  // namespace foretrace::whatif
