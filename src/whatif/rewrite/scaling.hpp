#pragma once
// A step with another batch, on a host of another speed, and under another driver.

#include <string_view>
#include <vector>

#include "foretrace/whatif/whatif.hpp"
#include "host/drivers.hpp"

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

/// Calls that give the GPU work take what they take under another maker's driver, and so do those that later what-ifs add. A captured
/// graph keeps its call: what starting one costs there was not measured.
void change_driver(Model& model, Draft& draft, const host::DriverChange& change);

/// The calls of a graph that gave the GPU work, by task, without those that start a captured graph.
std::vector<bool> launch_calls(const graph::Graph& graph);

}  // namespace foretrace::whatif
