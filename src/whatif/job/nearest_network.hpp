#pragma once
// Guesses the network that a job was recorded on, where it is not given.

#include <cstdint>
#include <string>
#include <unordered_map>

#include "foretrace/hardware/device.hpp"
#include "foretrace/trace/trace.hpp"
#include "foretrace/whatif/parallel.hpp"

namespace foretrace::whatif {

/// What the transfers of a rank took, by event of their kernel, in nanoseconds.
using TransferTimes = std::unordered_map<std::uint32_t, double>;

/// The built-in network, as it is or with one GPU in each node, whose times are nearest to the recorded transfers: by the squares of
/// the logarithms of their ratios, weighted by the recorded times. The GPU's typical network where none is nearer than it.
NetworkChoice nearest_network(const trace::Trace& trace, const TransferTimes& recorded, const hardware::Device& device);

/// "25GbE", "25GbE with one GPU in a node"
std::string in_words(const NetworkChoice& network);

}  // namespace foretrace::whatif
