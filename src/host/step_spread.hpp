#pragma once
// How much the steps of one recording differ, as logarithms of time around the step that was analysed.

#include <optional>

#include "foretrace/graph/graph.hpp"

namespace foretrace::host {

/// Distances of the 90th and the 10th percentile.
struct LogSpread {
  double up = 0, down = 0;
};

/// What the recorded steps say of a step that takes `step`; nothing where there is only one. As a ratio, because a slower host slows
/// everything; and as a difference, because a stall does not get shorter when the rest of the step does: the wider of both.
std::optional<LogSpread> recorded_spread(const graph::Graph& graph, Ns step);

/// Of a step alone in its recording: the standard deviation of log time that recordings of several steps have (step_spread.csv, which
/// tools/fit_step_spread.py writes).
double one_step_sigma();

}  // namespace foretrace::host
