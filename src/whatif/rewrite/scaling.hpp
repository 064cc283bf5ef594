#pragma once
// A step with another batch, and on a host of another speed.

#include <string_view>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Rescales forward, backward and data tasks of the draft to a batch x times as large. Returns how many tasks changed.
/// Memory that holds the batch's data grows with it; parameters, states and gradients do not.
std::size_t scale_batch(Model& model, Draft& draft, double x);

/// Whether a collective moves activations or their gradients, which grow with the batch: sends, receives and all-to-alls, and what
/// tensor parallelism reduces and gathers inside the passes. Gradients and parameters do not grow. They are moved as flat buffers
/// of one dimension, or behind the backward pass.
bool moves_samples(const Model& model, std::uint32_t task);

/// Collectives that move samples, or all of them, for x times as much of it.
void scale_collectives(Model& model, Draft& draft, double x, bool all = false);

/// All CPU work takes `factor` times as long, and so does what later what-ifs add.
void scale_host(Model& model, Draft& draft, double factor);

}  // namespace foretrace::whatif
