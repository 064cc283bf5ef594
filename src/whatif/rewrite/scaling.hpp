#pragma once
// A step with another batch, and on a host of another speed.

#include <string_view>

#include "foretrace/whatif/whatif.hpp"

namespace foretrace::whatif {

/// Rescales forward, backward and data tasks of the draft to a batch x times as large. Returns how many tasks changed.
/// Memory that holds the batch's data grows with it; parameters, states and gradients do not.
std::size_t scale_batch(Model& model, Draft& draft, double x);

/// Whether a collective's kernel moves samples or activations (send, receive, all-to-all), which grow with the batch;
/// all-reduces, gathers and scatters of a data-parallel step move gradients and parameters, which do not.
bool moves_samples(std::string_view kernel);

/// All CPU work takes `factor` times as long, and so does what later what-ifs add.
void scale_host(Model& model, Draft& draft, double factor);

}  // namespace foretrace::whatif
