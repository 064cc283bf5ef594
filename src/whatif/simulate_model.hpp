#pragma once
// One place where a model becomes times: its graph, with whatever runs beside what slowed down.

#include <span>

#include "foretrace/whatif/model.hpp"

namespace foretrace::whatif {

/// A lane of this name holds two marks between which the step is measured: for changes whose work reaches into the next step.
inline constexpr std::string_view kPeriodLane = "period";

/// `cost` instead of the graph's own, where given.
simulate::SteadyState simulate_model(const Model& model, std::span<const Ns> cost);

/// The least certain origin that carries at least a hundredth of the GPU's time.
std::string worst_origin(const graph::Graph& graph);

}  // namespace foretrace::whatif
