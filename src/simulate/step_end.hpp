#pragma once
// The length of the step, once every task has its times.

#include "foretrace/simulate/simulate.hpp"

namespace foretrace::simulate {

/// Fills timeline.step and timeline.copy_ends.
void find_step(const graph::Graph& graph, Timeline& timeline);

/// The engine for tasks whose speed depends on what runs beside them: events in the order of time.
void simulate_contended(const graph::Graph& graph, const Options& options, Timeline& timeline);

}  // namespace foretrace::simulate
